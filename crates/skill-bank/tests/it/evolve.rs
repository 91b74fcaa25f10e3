//! Evolution: weak types, the failures that are shown, changes of every kind, and rounds that go on.

use crate::support::{conformance_json, episode, train};
use serde_json::{Value, json};
use skill_bank::distill::{
    Admit, Applied, Change, DistillError, LeftOutReason, Teacher, TeacherPrompts, apply,
};
use skill_bank::episode::{Episode, EpisodeStep, TrainEpisode};
use skill_bank::evolve::{Evolution, EvolvePlan, EvolveSettings, evolve};
use skill_bank::lint::{Forbidden, LintRule};
use skill_bank::{Author, Bank, BankEvent, Basis, Content, Evidence, Reason, SkillRef, Source, State, Tier};
use skill_core::{
    FinishReason, ItemId, Role, RolloutResult, SkillPartId, Trajectory, TrajectoryMessage, TrajectoryTurn,
    Usage,
};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{
    CallCtx, ChatReply, ChatRequest, EmbeddingModel, EmbeddingReply, EmbeddingRequest, LlmError, ModelId,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

fn principle(title: &str) -> Content {
    Content::Principle { title: title.to_owned(), principle: "p".to_owned(), when_to_apply: "w".to_owned() }
}

fn add(bank: &mut Bank, tier: Tier, title: &str) -> SkillPartId {
    let skill = bank.next_skill(&tier);
    let event = BankEvent::Proposed {
        skill: skill.clone(),
        tier,
        content: principle(title),
        source: Source::Imported,
        parents: Vec::new(),
        evidence: Evidence::default(),
    };
    bank.record(0, Author::Process, event).unwrap();
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Unmeasured };
    bank.record(0, Author::Process, admitted).unwrap();
    skill.skill
}

/// The bank of the recorded cases: `gen_001` "Look First", `hea_001` "Open Microwave".
fn bank() -> Bank {
    let mut bank = Bank::new();
    add(&mut bank, Tier::General, "Look First");
    add(&mut bank, Tier::of_type("heat"), "Open Microwave");
    bank
}

/// So many rollouts of a type, each of a task of its own, of which some succeed.
fn rollouts(task_type: &str, n: usize, n_won: usize) -> Vec<Episode> {
    (0..n).map(|at| episode(&format!("{task_type}-{at:02}"), task_type, at < n_won)).collect()
}

fn weak_heat() -> Vec<TrainEpisode> {
    train(rollouts("heat", 12, 0))
}

type Log = Arc<Mutex<Vec<String>>>;

fn teacher_of(
    answer: impl Fn(&str) -> Result<String, LlmError> + Send + Sync + 'static,
) -> (ScriptedModel, Log) {
    let log = Log::default();
    let own = Arc::clone(&log);
    let model = ScriptedModel::from_fn("teacher", move |request: &ChatRequest, call: &CallCtx| {
        assert!(call.place.as_str().starts_with("round 1 / evolve"), "{}", call.place);
        let user = request.text_of(Role::User);
        own.lock().unwrap().push(user.clone());
        Ok(ChatReply::text(answer(&user)?, Usage { input: 5, output: 1, ..Usage::default() }))
    });
    (model, log)
}

async fn run_with(
    episodes: &[TrainEpisode],
    bank: &Bank,
    model: &ScriptedModel,
    embedding: Option<&dyn EmbeddingModel>,
) -> Result<Evolution, DistillError> {
    let settings = EvolveSettings::default();
    let prompts = TeacherPrompts::embedded().unwrap();
    let teacher = Teacher { model, embedding, prompts: &prompts, max_reply_tokens: 2_048, workers: 1 };
    let plan = EvolvePlan::new(episodes, &settings);
    let forbidden = Forbidden::of_episodes(episodes.iter().map(|episode| &**episode));
    let call = CallCtx::default().child("round 1");
    evolve(episodes, &plan, bank, &settings, &teacher, &forbidden, &call).await
}

async fn replying(bank: &Bank, reply: Value) -> Evolution {
    let (model, _) = teacher_of(move |_| Ok(reply.to_string()));
    run_with(&weak_heat(), bank, &model, None).await.unwrap()
}

fn skill(title: &str) -> Value {
    json!({"title": title, "principle": format!("Principle of {title}."), "when_to_apply": "When it fits."})
}

#[test]
fn types_are_weak_by_the_upper_bound_of_enough_rollouts() {
    let mut episodes = rollouts("heat", 20, 2);
    episodes.extend(rollouts("clean", 20, 12));
    episodes.extend(rollouts("cool", 4, 0));
    episodes.extend(rollouts("look", 20, 6));
    episodes.extend(rollouts("", 20, 0));
    episodes.extend(rollouts("unknown", 20, 0));
    let plan = EvolvePlan::new(&train(episodes), &EvolveSettings::default());
    let rates: Vec<_> =
        plan.rates.iter().map(|rate| (&*rate.task_type, rate.successes, rate.is_weak)).collect();
    // `cool` has too few rollouts; the rate of `look` is below the threshold, and its upper bound is not.
    assert_eq!(rates, [("clean", 12, false), ("cool", 0, false), ("heat", 2, true), ("look", 6, false)]);
    assert_eq!(plan.weak, ["heat"]);
    assert_eq!((plan.threshold, plan.shown.len()), (0.4, 10));
}

#[test]
fn failures_of_weak_types_are_shown_in_turns_by_type_and_kind() {
    let mut heat = rollouts("heat", 30, 6);
    for (at, episode) in heat.iter_mut().enumerate() {
        let reason = if at % 8 == 7 { "burnt pan 7" } else { "out of turns" };
        if !episode.success {
            reason.clone_into(&mut episode.fail_reason);
        }
    }
    let mut episodes = heat;
    episodes.extend(rollouts("clean", 30, 6));
    episodes.extend(rollouts("cool", 30, 29));
    let episodes = train(episodes);
    let plan = EvolvePlan::new(&episodes, &EvolveSettings::default());
    let shown: Vec<&TrainEpisode> = plan.shown.iter().map(|shown| &episodes[shown.failure]).collect();
    let types: Vec<&str> = shown.iter().map(|episode| &*episode.task_type).collect();
    assert_eq!(types, ["clean", "heat", "clean", "heat", "clean"], "five, as no rate is below 0.2");
    let kinds: BTreeSet<&str> = shown.iter().map(|episode| &*episode.fail_reason).collect();
    assert!(kinds.contains("burnt pan 7") && kinds.contains("out of turns"), "{kinds:?}");
    assert!(shown.iter().all(|episode| !episode.success));
}

#[test]
fn a_failure_is_shown_with_a_success_at_the_same_task() {
    let mut episodes = rollouts("heat", 12, 0);
    let mut won = episode("won", "heat", true);
    won.item = ItemId::new("heat-03");
    episodes.push(won);
    let plan = EvolvePlan::new(&train(episodes.clone()), &EvolveSettings::default());
    let pairs: Vec<_> = plan.shown.iter().filter_map(|shown| Some((shown.failure, shown.success?))).collect();
    assert_eq!(pairs, [(3, 12)]);
    let places: Vec<usize> = plan.places().collect();
    assert_eq!(places[3..5], [3, 12], "next to each other");
    let settings = EvolveSettings { max_prompt_tokens: 1, ..EvolveSettings::default() };
    let plan = EvolvePlan::new(&train(episodes), &settings);
    assert_eq!((plan.shown.len(), plan.shown[0].success), (1, None), "the first failure in any case");
}

#[tokio::test]
async fn nothing_is_asked_where_no_type_is_weak() {
    let (model, log) = teacher_of(|_| Ok("[]".to_owned()));
    let outcome = run_with(&train(rollouts("heat", 20, 15)), &bank(), &model, None).await.unwrap();
    assert_eq!((outcome, log.lock().unwrap().len()), (Evolution::default(), 0));
}

#[tokio::test]
async fn the_teacher_sees_ids_and_contents_of_the_types_skills() {
    let mut bank = bank();
    add(&mut bank, Tier::of_type("clean"), "Not of this type");
    let pinned = add(&mut bank, Tier::of_type("heat"), "Pinned");
    bank.record(0, Author::Person, BankEvent::Pinned { skill: pinned }).unwrap();
    let retired = SkillRef::new(add(&mut bank, Tier::of_type("heat"), "Long gone"), 1);
    bank.record(0, Author::Person, BankEvent::Retired { skill: retired, reason: Reason::Person }).unwrap();
    let (model, log) = teacher_of(|_| Ok("[]".to_owned()));
    let outcome = run_with(&weak_heat(), &bank, &model, None).await.unwrap();
    assert_eq!((outcome.proposals.len(), outcome.calls, outcome.usage.input), (0, 1, 5));
    let log = log.lock().unwrap();
    for part in ["id=\"hea_001\"", "Open Microwave", "id=\"gen_001\"", "fixed=\"yes\"", "0 of 12"] {
        assert!(log[0].contains(part), "{part}");
    }
    assert!(!log[0].contains("Not of this type") && !log[0].contains("Long gone"));
    assert_eq!(log[0].matches("<episode ").count(), 10);
}

#[tokio::test]
async fn changes_of_every_kind_are_proposed_and_applied() {
    let mut bank = bank();
    let second = add(&mut bank, Tier::of_type("heat"), "Close Microwave");
    let third = add(&mut bank, Tier::of_type("heat"), "Wait");
    let mut revised = skill("Open The Microwave");
    revised["op"] = json!("revise");
    revised["id"] = json!("gen_001");
    let mut merged = skill("Open And Close");
    merged["op"] = json!("merge");
    merged["ids"] = json!(["hea_001", second.as_str()]);
    let retired = json!({"op": "retire", "id": third.as_str()});
    let outcome = replying(&bank, json!({"changes": [revised, merged, retired]})).await;
    let changes: Vec<&Change> = outcome.proposals.iter().map(|proposal| &proposal.change).collect();
    assert!(
        matches!(changes.as_slice(), [Change::Revise { .. }, Change::Merge { .. }, Change::Retire { .. }]),
        "{outcome:?}"
    );
    let evidence = &outcome.proposals[0].evidence;
    assert_eq!((evidence.items.len(), evidence.calls), (10, 1));

    let mut candidates = bank.clone();
    let applied = apply(&mut candidates, 1, &outcome.proposals, Admit::Candidate).unwrap();
    let ids: Vec<String> = applied.proposed.iter().map(ToString::to_string).collect();
    assert_eq!(ids, ["gen_001@2", "hea_004"]);
    assert_eq!(applied.retirements, [SkillRef::new(third.clone(), 1)]);
    assert_eq!(candidates.view(), bank.view(), "nothing that agents are shown has changed");
    let parents = &candidates.version(&applied.proposed[1]).unwrap().parents;
    assert_eq!(parents.len(), 2);

    let applied = apply(&mut bank, 1, &outcome.proposals, Admit::Unmeasured).unwrap();
    let state = |id: &SkillPartId| bank.skill(id).unwrap().state();
    assert_eq!(state(&applied.proposed[1].skill), State::Active);
    assert_eq!((state(&second), state(&third)), (State::Retired, State::Retired));
    assert_eq!(bank.skill(&SkillPartId::new("gen_001")).unwrap().active().unwrap().number, 2);
    assert_eq!(Bank::from_log(&bank.log_text()).unwrap(), bank);
}

#[tokio::test]
async fn changes_that_cannot_be_made_are_reported() {
    let mut bank = bank();
    let other = add(&mut bank, Tier::of_type("clean"), "Other");
    let pinned = add(&mut bank, Tier::of_type("heat"), "Pinned");
    bank.record(0, Author::Person, BankEvent::Pinned { skill: pinned.clone() }).unwrap();
    let revise = |id: &str, title: &str| {
        let mut entry = skill(title);
        entry["op"] = json!("revise");
        entry["id"] = json!(id);
        entry
    };
    let mut same = revise("hea_001", "Open Microwave");
    same["principle"] = json!("P!");
    same["when_to_apply"] = json!("w");
    let long = json!({"title": "Long", "principle": "x".repeat(2_000)});
    for (entry, expected) in [
        (revise("hea_099", "New"), "UnknownSkill"),
        (revise(other.as_str(), "New"), "OtherTier"),
        (revise(pinned.as_str(), "New"), "Pinned"),
        (skill("Pinned"), "Pinned"),
        (same, "Duplicate"),
        (json!({"op": "erase", "id": "hea_001"}), "UnknownOperation"),
        (json!({"op": "retire"}), "MissingField"),
        (json!({"op": "merge", "ids": [], "title": "T", "principle": "P"}), "MissingField"),
        (long, "Refused"),
    ] {
        let outcome = replying(&bank, json!([entry])).await;
        assert_eq!(outcome.proposals, [], "{entry}");
        let reason = format!("{:?}", outcome.left_out[0].reason);
        assert!(reason.starts_with(expected), "{entry}: {reason}");
    }
}

#[tokio::test]
async fn with_several_weak_types_a_new_skill_names_its_type() {
    let mut episodes = rollouts("heat", 12, 0);
    episodes.extend(rollouts("pick two", 12, 1));
    let (mut named, mut lost) = (skill("Named"), skill("Lost"));
    named["task_type"] = json!("Pick_Two");
    lost["task_type"] = json!("general");
    let (model, _) = teacher_of(move |_| Ok(json!([named, lost]).to_string()));
    let outcome = run_with(&train(episodes), &bank(), &model, None).await.unwrap();
    let [only] = outcome.proposals.as_slice() else { panic!("{outcome:?}") };
    assert!(matches!(&only.change, Change::Add { tier, .. } if *tier == Tier::of_type("pick two")));
    assert_eq!(outcome.left_out[0].reason, LeftOutReason::NoType);
}

/// Texts that begin with the same letter have the same vector.
struct FirstLetter(ModelId);

#[async_trait::async_trait]
impl EmbeddingModel for FirstLetter {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn embed(&self, request: &EmbeddingRequest, _: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        let vector = |text: &Arc<str>| {
            let mut vector = vec![0.0; 256];
            vector[usize::from(text.as_bytes()[0])] = 2.0;
            vector
        };
        Ok(EmbeddingReply::new(request.texts.iter().map(vector).collect(), Usage::default()))
    }
}

#[tokio::test]
async fn near_duplicates_become_revisions_of_their_neighbour() {
    let embedding = FirstLetter(ModelId::new("test", "letters"));
    let reply = json!([skill("Open the oven"), skill("Try it"), skill("Touch it")]);
    let (model, _) = teacher_of(move |_| Ok(reply.to_string()));
    let outcome = run_with(&weak_heat(), &bank(), &model, Some(&embedding)).await.unwrap();
    let [revised, added] = outcome.proposals.as_slice() else { panic!("{outcome:?}") };
    assert!(matches!(&revised.change, Change::Revise { of, .. } if of.as_str() == "hea_001"));
    assert!(matches!(&added.change, Change::Add { content, .. } if content.title() == "Try it"));
    assert!(matches!(&outcome.left_out[0].reason, LeftOutReason::Duplicate { of } if of == "Try it"));
}

#[tokio::test]
async fn rounds_give_strictly_new_ids_and_see_what_earlier_rounds_brought() {
    for admit in [Admit::Candidate, Admit::Unmeasured] {
        let mut bank = bank();
        let mut seen: BTreeSet<SkillRef> = BTreeSet::new();
        for round in 1..=10 {
            let titles = [1, 2, 3, 4].map(|at| skill(&format!("Round {round} Skill {at}")));
            let (model, log) = teacher_of(move |_| Ok(json!(titles).to_string()));
            let outcome = run_with(&weak_heat(), &bank, &model, None).await.unwrap();
            let applied = apply(&mut bank, round, &outcome.proposals, admit).unwrap();
            assert_eq!(applied.proposed.len(), 3, "at most three a round");
            assert!(applied.proposed.iter().all(|skill| seen.insert(skill.clone())));
            let shown = log.lock().unwrap()[0].clone();
            for earlier in 1..round {
                assert!(shown.contains(&format!("Round {earlier} Skill 3")), "{round}");
            }
        }
        assert_eq!(seen.last().unwrap().to_string(), "hea_031");
        assert_eq!(bank.view().skills().len(), if admit == Admit::Candidate { 2 } else { 32 });
    }
}

#[tokio::test]
async fn faults_of_the_teacher_are_errors_and_an_empty_list_is_not() {
    let (dead, _) =
        teacher_of(|_| Err(LlmError::Connection { provider: "p".to_owned(), message: "m".to_owned() }));
    let outcome = run_with(&weak_heat(), &bank(), &dead, None).await;
    assert!(matches!(outcome, Err(DistillError::Model { .. })));
    let (prose, log) = teacher_of(|_| Ok("I would add nothing.".to_owned()));
    let outcome = run_with(&weak_heat(), &bank(), &prose, None).await;
    assert!(matches!(outcome, Err(DistillError::BrokenReply { .. })));
    assert_eq!(log.lock().unwrap().len(), 2, "one repair");
    let (empty, log) = teacher_of(|_| Ok("{\"changes\": []}".to_owned()));
    let outcome = run_with(&weak_heat(), &bank(), &empty, None).await.unwrap();
    assert_eq!((outcome.proposals.len(), log.lock().unwrap().len()), (0, 1));
}

#[tokio::test]
async fn the_prompt_with_skills() {
    let bank = bank();
    let mut failure = episode("heat-lost", "heat", false);
    failure.item = ItemId::new("heat-00");
    failure.steps = vec![EpisodeStep::new("You are in a kitchen.", "go to fridge 1")];
    let mut episodes = vec![failure];
    episodes.extend(rollouts("heat", 12, 1));
    let (model, log) = teacher_of(|_| Ok("[]".to_owned()));
    let settings = EvolveSettings { max_analysis_deep: 2, ..EvolveSettings::default() };
    let prompts = TeacherPrompts::embedded().unwrap();
    let teacher =
        Teacher { model: &model, embedding: None, prompts: &prompts, max_reply_tokens: 9, workers: 1 };
    let episodes = train(episodes);
    let plan = EvolvePlan::new(&episodes, &settings);
    let call = CallCtx::default().child("round 1");
    evolve(&episodes, &plan, &bank, &settings, &teacher, &Forbidden::new(), &call).await.unwrap();
    insta::assert_snapshot!("evolve", log.lock().unwrap()[0]);
}

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
async fn conformance_prompt() {
    let Some(recorded) = conformance_json("evolution.json") else { return };
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
        let user = log.lock().unwrap()[0].clone();
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
async fn conformance_replies() {
    let Some(recorded) = conformance_json("evolution.json") else { return };
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
        let asked_again = log.lock().unwrap().len() > 1;
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
async fn conformance_rounds() {
    let Some(recorded) = conformance_json("evolution.json") else { return };
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
fn conformance_trigger() {
    let Some(recorded) = conformance_json("evolution.json") else { return };
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
fn conformance_samples() {
    let Some(recorded) = conformance_json("evolution.json") else { return };
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
