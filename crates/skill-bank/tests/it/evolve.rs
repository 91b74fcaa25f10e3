//! Evolution: weak types, the failures that are shown, changes of every kind, and rounds that go on.

use crate::support::{FirstLetter, episode, train};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_bank::distill::{
    Admit, Change, DistillError, LeftOutReason, Proposal, Teacher, TeacherPrompts, apply,
};
use skill_bank::episode::{Episode, EpisodeStep, TrainEpisode};
use skill_bank::evolve::{Evolution, EvolvePlan, EvolveSettings, evolve};
use skill_bank::lint::Forbidden;
use skill_bank::trial::{ItemRate, TriedItems};
use skill_bank::{
    Author, Bank, BankEvent, Basis, Content, Evidence, Reason, SkillProvenance, SkillRef, State, Tier,
};
use skill_core::{ItemId, Role, SkillPartId, Usage};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatReply, ChatRequest, EmbeddingModel, LlmError};
use std::collections::BTreeSet;
use std::sync::Arc;

fn principle(title: &str) -> Content {
    Content::principle(title, "p", "w")
}

pub(crate) fn add(bank: &mut Bank, tier: Tier, title: &str) -> SkillPartId {
    let skill = bank.next_skill(&tier);
    let (content, evidence) = (principle(title), Evidence::default());
    let event = BankEvent::proposed(skill.clone(), tier, content, SkillProvenance::Imported, evidence);
    bank.record(0, Author::Process, event).unwrap();
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Unmeasured };
    bank.record(0, Author::Process, admitted).unwrap();
    skill.skill
}

/// The bank of the recorded cases: `gen_001` "Look First", `hea_001` "Open Microwave".
pub(crate) fn bank() -> Bank {
    let mut bank = Bank::new();
    add(&mut bank, Tier::General, "Look First");
    add(&mut bank, Tier::of_type("heat"), "Open Microwave");
    bank
}

/// So many rollouts of a type, each of a task of its own, of which some succeed.
pub(crate) fn rollouts(task_type: &str, n: usize, n_won: usize) -> Vec<Episode> {
    (0..n).map(|at| episode(&format!("{task_type}-{at:02}"), task_type, at < n_won)).collect()
}

pub(crate) fn weak_heat() -> Vec<TrainEpisode> {
    train(rollouts("heat", 12, 0))
}

pub(crate) type Log = Arc<Mutex<Vec<String>>>;

pub(crate) fn teacher_of(
    answer: impl Fn(&str) -> Result<String, LlmError> + Send + Sync + 'static,
) -> (ScriptedModel, Log) {
    let log = Log::default();
    let own = Arc::clone(&log);
    let model = ScriptedModel::from_fn("teacher", move |request: &ChatRequest, call: &CallCtx| {
        assert!(call.place.as_str().starts_with("round 1 / evolve"), "{}", call.place);
        let user = request.text_of(Role::User);
        own.lock().push(user.clone());
        Ok(ChatReply::text(answer(&user)?, Usage { input: 5, output: 1, ..Usage::default() }))
    });
    (model, log)
}

pub(crate) async fn run_with(
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

pub(crate) fn skill(title: &str) -> Value {
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
fn a_type_that_one_round_is_too_small_for_is_weak_over_several() {
    let settings = EvolveSettings::default();
    let mut episodes = rollouts("look", 12, 2);
    episodes.extend(rollouts("heat", 12, 2));
    let episodes = train(episodes);
    let alone = EvolvePlan::new(&episodes, &settings);
    assert_eq!(alone.weak, [""; 0]);
    let look = alone.rates.iter().find(|rate| rate.task_type == "look").unwrap();
    let earlier = [("look".to_owned(), look.pooled), ("cool".to_owned(), look.pooled)].into();
    let plan = EvolvePlan::with_earlier(&episodes, &earlier, &settings);
    let rates: Vec<_> = plan
        .rates
        .iter()
        .map(|rate| (&*rate.task_type, rate.rollouts, rate.pooled.successes, rate.pooled.rollouts))
        .collect();
    assert_eq!(rates, [("heat", 12, 2, 12), ("look", 12, 4, 24)]);
    assert_eq!(plan.weak, ["look"]);
    // A teacher reads failures of this round.
    assert!(plan.places().all(|place| episodes[place].task_type == "look"));
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
    assert_eq!((outcome, log.lock().len()), (Evolution::default(), 0));
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
    let log = log.lock();
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

#[tokio::test]
async fn near_duplicates_become_revisions_of_their_neighbour() {
    let embedding = FirstLetter::new();
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
            let shown = log.lock()[0].clone();
            for earlier in 1..round {
                assert!(shown.contains(&format!("Round {earlier} Skill 3")), "{round}");
            }
        }
        assert_eq!(seen.last().unwrap().to_string(), "hea_031");
        assert_eq!(bank.view().skills().len(), if admit == Admit::Candidate { 2 } else { 32 });
    }
}

#[test]
fn a_revision_or_merger_has_the_evidence_of_its_parents() {
    let evidence = |name: &str, calls: u64| {
        let mut evidence = Evidence::default();
        evidence.items = ["shared", name].map(ItemId::new).into();
        evidence.trajectories = vec![format!("{name}-1")];
        evidence.prompt_sha256 = Some("one prompt for all".to_owned());
        evidence.calls = calls;
        evidence
    };
    let heat = Tier::of_type("heat");
    let mut bank = Bank::new();
    let adds = ["first", "second"].map(|title| {
        let change = Change::Add { tier: heat.clone(), content: principle(title) };
        Proposal::new(change, SkillProvenance::Distilled, evidence(title, 1))
    });
    let [first, second] = apply(&mut bank, 0, &adds, Admit::Unmeasured).unwrap().proposed.try_into().unwrap();
    let revise = Change::Revise { of: first.skill.clone(), content: principle("first, better") };
    let merge = Change::Merge {
        from: vec![first.skill, second.skill],
        tier: heat.clone(),
        content: principle("both"),
    };
    for (change, items, trajectories) in [
        (revise, vec!["shared", "own", "first"], vec!["own-1", "first-1"]),
        (merge, vec!["shared", "own", "first", "second"], vec!["own-1", "first-1", "second-1"]),
    ] {
        let mut bank = bank.clone();
        let proposal = Proposal::new(change, SkillProvenance::Evolved, evidence("own", 2));
        let applied = apply(&mut bank, 1, &[proposal], Admit::Candidate).unwrap();
        let found = &bank.version(&applied.proposed[0]).unwrap().evidence;
        assert_eq!(found.items.iter().map(ItemId::as_str).collect::<Vec<_>>(), items);
        assert_eq!(found.trajectories, trajectories);
        assert_eq!(found.calls, 2, "those of its own reply");
        let eligible = items.iter().chain(&["other"]).map(|item| ItemRate::unknown(ItemId::new(*item)));
        let eligible: Vec<ItemRate> = eligible.collect();
        let tried = TriedItems::choose(&applied.proposed[0], found, &eligible, 8, 1).unwrap();
        assert_eq!(tried.as_slice(), [ItemId::new("other")]);
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
    assert_eq!(log.lock().len(), 2, "one repair");
    let (empty, log) = teacher_of(|_| Ok("{\"changes\": []}".to_owned()));
    let outcome = run_with(&weak_heat(), &bank(), &empty, None).await.unwrap();
    assert_eq!((outcome.proposals.len(), log.lock().len()), (0, 1));
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
    insta::assert_snapshot!("evolve", log.lock()[0]);
}
