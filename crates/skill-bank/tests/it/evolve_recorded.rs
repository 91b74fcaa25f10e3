//! Evolution on recorded replies, rounds and rates.

use crate::evolve::{add, bank, rollouts, run_with, skill, teacher_of, weak_heat};
use crate::support::{conformance_json, episode, train};
use serde_json::{Value, json};
use skill_bank::distill::{
    Admit, Applied, Change, DistillError, LeftOutReason, Teacher, TeacherPrompts, apply,
};
use skill_bank::episode::{Episode, EpisodeStep};
use skill_bank::evolve::{EvolvePlan, EvolveSettings, evolve};
use skill_bank::lint::{Forbidden, LintRule};
use skill_bank::{Author, Bank, BankEvent, Reason, SkillRef, Tier};
use skill_core::{FinishReason, ItemId, Role, RolloutResult, Trajectory, TrajectoryMessage, TrajectoryTurn};
use skill_llm::{CallCtx, LlmError};

fn recorded_bank(recorded: &Value) -> Bank {
    let mut bank = Bank::new();
    let title = |skill: &Value| skill["title"].as_str().map(str::to_owned);
    for skill in recorded["general_skills"].as_array().into_iter().flatten() {
        add(&mut bank, Tier::General, &title(skill).unwrap());
    }
    for (task_type, skills) in recorded["task_specific_skills"].as_object().into_iter().flatten() {
        for skill in skills.as_array().unwrap() {
            if let Some(title) = title(skill) {
                add(&mut bank, Tier::of_type(task_type), &title);
            }
        }
    }
    bank
}

#[tokio::test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
async fn conformance_prompt() {
    let recorded = conformance_json("evolution.json");
    let rows = recorded["prompt"].as_array().unwrap();
    for row in rows {
        let id = row["id"].as_str().unwrap();
        let failures = row["failures"].as_array().unwrap();
        let episodes = failures.iter().enumerate().map(|(at, failure)| {
            let mut made = episode(&format!("e{at}"), failure["task_type"].as_str().unwrap(), false);
            failure["task"].as_str().unwrap().clone_into(&mut made.goal);
            let steps = failure["trajectory"].as_array().unwrap().iter();
            let text = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
            made.steps =
                steps.map(|step| EpisodeStep::new(text(step, "observation"), text(step, "action"))).collect();
            made
        });
        let episodes = train(episodes.collect());
        // Few rollouts are enough, and all of them have failed.
        let settings = EvolveSettings {
            min_rollouts: 1,
            threshold: 1.0,
            max_analysis_deep: 5,
            ..EvolveSettings::default()
        };
        let plan = EvolvePlan::new(&episodes, &settings);
        let bank = recorded_bank(&row["bank"]);
        let (model, log) = teacher_of(|_| Ok("[]".to_owned()));
        let prompts = TeacherPrompts::embedded().unwrap();
        let teacher =
            Teacher { model: &model, embedding: None, prompts: &prompts, max_reply_tokens: 9, workers: 1 };
        let call = CallCtx::default().child("round 1");
        let outcome =
            evolve(&episodes, &plan, &bank, &settings, &teacher, &Forbidden::new(), &call).await.unwrap();
        assert_eq!(outcome.calls, 1, "{id}");
        let user = log.lock()[0].clone();
        let reference = &row["reference"];
        if reference["raises"].is_string() {
            // An observation without text ends the reference's training; ours leaves it out.
            continue;
        }
        let examples = reference["examples"].as_array().unwrap();
        assert_eq!(plan.shown.len(), examples.len(), "{id}");
        assert_eq!(user.matches("<episode ").count(), examples.len(), "{id}");
        for example in examples {
            assert!(user.contains(example["task"].as_str().unwrap()), "{id}");
            for action in example["actions"].as_array().unwrap() {
                let action = action.as_str().unwrap();
                assert!(action == "unknown" || user.contains(&format!("Did: {action}")), "{id} {action}");
            }
        }
        for title in reference["titles"].as_array().unwrap() {
            let title = title.as_str().unwrap();
            let title = title.rsplit_once("] ").map_or(title, |(_, title)| title);
            assert!(title.is_empty() || user.contains(&format!("Title: {title}")), "{id}: {title}");
        }
    }
    println!("conformance: {} prompts of evolution", rows.len());
}

#[tokio::test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
async fn conformance_replies() {
    let recorded = conformance_json("evolution.json");
    let rows = recorded["replies"].as_array().unwrap();
    for row in rows {
        let id = row["id"].as_str().unwrap();
        let right = row["right"].as_str().unwrap();
        let reply = row["reply"].as_str().unwrap_or_default().to_owned();
        let is_dead = row["call_raises"].is_string();
        let (model, log) = teacher_of(move |_| match is_dead {
            true => Err(LlmError::Connection { provider: "p".to_owned(), message: "timeout".to_owned() }),
            false => Ok(reply.clone()),
        });
        let mut episodes = rollouts("heat", 12, 0);
        for episode in &mut episodes {
            episode.steps.push(EpisodeStep::new("You see an egg 2.", "go to fridge 1"));
        }
        let mut bank = bank();
        let outcome = run_with(&train(episodes), &bank, &model, None).await;
        let asked_again = log.lock().len() > 1;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(DistillError::Model { .. }) => {
                assert!(is_dead && right.starts_with("an infrastructure fault"), "{id}");
                continue;
            }
            Err(DistillError::BrokenReply { .. }) => {
                let is_right = right.starts_with("ask again") || right.starts_with("report an empty");
                assert!(is_right && asked_again, "{id}: {right}");
                continue;
            }
            Err(error) => panic!("{id}: {error}"),
        };
        let n_added =
            outcome.proposals.iter().filter(|proposal| matches!(proposal.change, Change::Add { .. })).count();
        let Applied { proposed, .. } = apply(&mut bank, 1, &outcome.proposals, Admit::Candidate).unwrap();
        assert!(!proposed.iter().any(|skill| skill.version == 1 && skill.part_id().as_str() == "hea_001"));
        let left_out = || outcome.left_out.first().map(|left| &left.reason);
        match right.strip_prefix("accept ") {
            Some(rest) => match rest.split_whitespace().next().unwrap().trim_end_matches(':') {
                "the" => assert!(n_added == 1 && !outcome.notes.is_empty(), "{id}: {outcome:?}"),
                number => {
                    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
                    assert_eq!(n_added, number.parse::<usize>().unwrap(), "{id}: {outcome:?}");
                }
            },
            None if right.starts_with("flag") => {
                let Some(LeftOutReason::Refused { findings }) = left_out() else {
                    panic!("{id}: {outcome:?}")
                };
                let expected = if right.contains("leak") { LintRule::Instance } else { LintRule::Secret };
                assert!(findings.iter().any(|finding| finding.rule == expected), "{id}: {findings:?}");
            }
            // Ours reads what was to be asked again, and says so.
            None if right.starts_with("ask again") => {
                assert!(n_added > 0 && !outcome.notes.is_empty(), "{id}: {outcome:?}");
            }
            // More than the limit.
            None => assert!(n_added <= 3, "{id}: {right}"),
        }
        if right.contains("report") || right.contains("duplicate") {
            let is_revision =
                |proposal: &skill_bank::distill::Proposal| matches!(proposal.change, Change::Revise { .. });
            let is_reported = !outcome.left_out.is_empty() || outcome.proposals.iter().any(is_revision);
            assert!(is_reported, "{id}: {outcome:?}");
        }
    }
    println!("conformance: {} replies of evolution", rows.len());
}

#[tokio::test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
async fn conformance_rounds() {
    let recorded = conformance_json("evolution.json");
    let mut n_compared = 0;
    for row in recorded["rounds"].as_array().unwrap() {
        let mut bank = recorded_bank(&row["bank"]);
        n_compared += 1;
        let Some(rounds) = row["right"].as_array() else {
            // An id is never given a second time, whatever became of its skill.
            let retired = SkillRef::new(add(&mut bank, Tier::of_type("heat"), "Gone"), 1);
            let event = BankEvent::Retired { skill: retired.clone(), reason: Reason::Person };
            bank.record(0, Author::Person, event).unwrap();
            let (model, _) = teacher_of(|_| Ok(json!([skill("Other")]).to_string()));
            let outcome = run_with(&weak_heat(), &bank, &model, None).await.unwrap();
            let applied = apply(&mut bank, 1, &outcome.proposals, Admit::Unmeasured).unwrap();
            assert!(applied.proposed[0].skill != retired.skill);
            continue;
        };
        let heat = Tier::of_type("heat");
        let n_before = bank.view().tier(&heat).count();
        for (round, expected) in (1..).zip(rounds) {
            let titles = row["reference"][round as usize - 1]["teacher_titles"].as_array().unwrap();
            let titles: Vec<Value> = titles.iter().map(|title| skill(title.as_str().unwrap())).collect();
            let (model, _) = teacher_of(move |_| Ok(json!(titles).to_string()));
            let outcome = run_with(&weak_heat(), &bank, &model, None).await.unwrap();
            apply(&mut bank, round, &outcome.proposals, Admit::Unmeasured).unwrap();
            // The reference puts them into the general tier, ours into that of the weak type.
            let view = bank.view();
            let own: Vec<&str> =
                view.tier(&heat).skip(n_before).map(|(_, skill)| skill.content.title()).collect();
            let expected = expected["general_if_every_candidate_passes"].as_array().unwrap();
            let expected: Vec<&str> =
                expected.iter().skip(1).map(|skill| skill[1].as_str().unwrap()).collect();
            assert_eq!(own, expected);
        }
    }
    println!("conformance: {n_compared} series of rounds");
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_trigger() {
    let recorded = conformance_json("evolution.json");
    let rows = recorded["trigger"].as_array().unwrap();
    for row in rows {
        let id = row["id"].as_str().unwrap();
        let mut episodes = Vec::new();
        let n_rollouts = 200;
        // An aggregate is not a type of any rollout, so only rates of types become rollouts.
        for (key, rate) in row["success_rates"].as_object().unwrap() {
            let name = key.strip_suffix("_success_rate").filter(|name| !name.contains(' '));
            if let Some(name) = name {
                let won = (rate.as_f64().unwrap() * f64::from(n_rollouts)).round() as usize;
                episodes.extend(rollouts(name, n_rollouts as usize, won));
            }
        }
        let all_won = row["scores"].as_array().unwrap().iter().all(|score| score.as_f64().unwrap() > 0.5);
        if all_won {
            episodes.retain(|episode| episode.success);
        }
        let threshold = row["threshold"].as_f64().unwrap_or(EvolveSettings::default().threshold);
        let settings = EvolveSettings { threshold, ..EvolveSettings::default() };
        let episodes = train(episodes);
        let plan = EvolvePlan::new(&episodes, &settings);
        let low: Vec<&str> =
            row["reference"]["low"].as_array().unwrap().iter().map(|low| low.as_str().unwrap()).collect();
        let rates = row["success_rates"].as_object().unwrap();
        let expected: Vec<&str> = low
            .into_iter()
            .filter(|name| {
                let rate = rates.get(&format!("{name}_success_rate")).and_then(Value::as_f64);
                !all_won && rate.is_some_and(|rate| rate < threshold)
            })
            .collect();
        assert_eq!(plan.weak, expected, "{id}");
        assert_eq!(plan.is_needed(), !expected.is_empty(), "{id}");
        let is_weak = |place: usize| plan.weak.contains(&episodes[place].task_type);
        assert!(plan.places().all(is_weak), "{id}: failures of weak types alone");
    }
    println!("conformance: {} triggers", rows.len());
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_samples() {
    let recorded = conformance_json("evolution.json");
    let mut n_compared = 0;
    for row in recorded["samples"].as_array().unwrap() {
        let Some(right) = row["right"].as_array() else {
            // The reference reads tasks out of the text of prompts; ours takes them from typed trajectories.
            continue;
        };
        for expected in right {
            n_compared += 1;
            let steps: Vec<&str> =
                expected["steps"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();
            let mut trajectory = Trajectory::default();
            let task = trajectory.say(TrajectoryMessage::new(Role::User, "task"));
            for step in &steps {
                let reply = trajectory.say(TrajectoryMessage::new(Role::Assistant, *step));
                let mut turn = TrajectoryTurn::new(vec![task], reply, FinishReason::Stop);
                turn.action = Some((*step).to_owned());
                trajectory.turns.push(turn);
            }
            let mut result = RolloutResult::new(ItemId::new("t"), 0.0, 0.0);
            expected["task"].as_str().unwrap().clone_into(&mut result.task_description);
            result.trajectory = trajectory;
            let read = Episode::of_rollout("t", "", &result);
            assert_eq!(Value::from(read.goal.as_str()), expected["task"]);
            let actions: Vec<&str> = read.steps.iter().map(|step| &*step.action).collect();
            assert_eq!(actions, steps);
        }
    }
    println!("conformance: {n_compared} samples");
}
