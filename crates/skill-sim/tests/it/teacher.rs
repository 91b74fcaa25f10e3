//! The simulated teacher behind `skill_bank`'s own distillation and evolution, on games, purchases and questions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::agents::{household, play, settings, share, shop};
use serde_json::{Value, json};
use skill_bank::distill::{
    Admit, Change, DistillPlan, DistillSettings, Distillation, LeftOut, LeftOutReason, Teacher,
    TeacherPrompts, apply, distill,
};
use skill_bank::episode::{EpisodeStep, TrainEpisode, TrainItems};
use skill_bank::evolve::{Evolution, EvolvePlan, EvolveSettings, evolve};
use skill_bank::lint::Forbidden;
use skill_bank::retrieve::{Retrieval, RetrievalSettings};
use skill_bank::{
    Author, Bank, BankEvent, Basis, Content, Episode, Evidence, SkillProvenance, SkillRef, Tier,
};
use skill_core::{ItemId, RolloutResult, SkillDoc};
use skill_envs::agent::WorldEnv;
use skill_envs::{Env, RolloutCtx, Split, World};
use skill_llm::{CallCtx, ChatModel, ChatRequest, Message};
use skill_sim::{
    HouseholdExpert, Player, ShopExpert, SimulatedAgent, SimulatedHousehold, SimulatedShopper,
    SimulatedTarget, SimulatedTeacher,
};
use std::collections::BTreeSet;
use std::sync::Arc;

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// The results as episodes for training; `round` tells those of one task apart.
fn episodes(environment: &str, results: &[RolloutResult], round: u32) -> Vec<TrainEpisode> {
    let of =
        |result: &RolloutResult| Episode::of_rollout(format!("{}-r{round}", result.id), environment, result);
    train(results.iter().map(of).collect())
}

fn train(episodes: Vec<Episode>) -> Vec<TrainEpisode> {
    TrainItems::of_collection(&episodes).take(episodes).0
}

fn forbidden(episodes: &[TrainEpisode]) -> Forbidden {
    Forbidden::of_episodes(episodes.iter().map(|episode| &**episode))
}

fn distilled(model: &dyn ChatModel, episodes: &[TrainEpisode], settings: &DistillSettings) -> Distillation {
    let prompts = TeacherPrompts::embedded().unwrap();
    let teacher = Teacher { model, embedding: None, prompts: &prompts, max_reply_tokens: 4_096, workers: 2 };
    let plan = DistillPlan::new(episodes, settings);
    let call = CallCtx::default();
    wait(distill(episodes, &plan, settings, &teacher, &forbidden(episodes), &call)).unwrap()
}

fn evolved(model: &dyn ChatModel, bank: &Bank, episodes: &[TrainEpisode]) -> Evolution {
    let settings = EvolveSettings { min_rollouts: 3, threshold: 0.9, ..EvolveSettings::default() };
    let prompts = TeacherPrompts::embedded().unwrap();
    let teacher = Teacher { model, embedding: None, prompts: &prompts, max_reply_tokens: 4_096, workers: 2 };
    let plan = EvolvePlan::new(episodes, &settings);
    let call = CallCtx::default();
    wait(evolve(episodes, &plan, bank, &settings, &teacher, &forbidden(episodes), &call)).unwrap()
}

/// A bank in which all that was distilled is shown.
fn bank_of(distilled: &Distillation) -> Bank {
    let mut bank = Bank::new();
    apply(&mut bank, 1, &distilled.proposals, Admit::Unmeasured).unwrap();
    bank
}

/// Brings a skill into a bank without a trial.
fn admit(bank: &mut Bank, tier: Tier, content: Content) -> SkillRef {
    let skill = bank.next_skill(&tier);
    let proposed =
        BankEvent::proposed(skill.clone(), tier, content, SkillProvenance::Imported, Evidence::default());
    bank.record(0, Author::Process, proposed).unwrap();
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Unmeasured };
    bank.record(0, Author::Process, admitted).unwrap();
    skill
}

/// Plays all tasks with what the bank shows for each.
fn play_with<P: Player + Default>(world: &Arc<dyn World>, bank: &Bank) -> Vec<RolloutResult> {
    let env = WorldEnv::new(Arc::clone(world), settings(), None).unwrap();
    let agent = SimulatedAgent::new(P::default(), 7);
    let retrieval = Retrieval::new(RetrievalSettings::default()).unwrap();
    let prepared = retrieval.prepare(bank.view());
    wait(async {
        let mut results = Vec::new();
        for item in env.items(Split::Train) {
            let shown = prepared.select(prepared.detect(&item.task_type, ""), None).text;
            let skill = SkillDoc::new(&shown);
            results.push(env.rollout(item, &skill, &agent, &RolloutCtx::default()).await.unwrap());
        }
        results
    })
}

/// All texts of the skills that are proposed.
fn texts(distilled: &Distillation) -> Vec<String> {
    let contents = distilled.proposals.iter().filter_map(|proposal| proposal.change.content());
    contents.map(|content| content.texts().join("\n")).collect()
}

/// Sentences of the harmful rules, so that the test does not read them from where they are written.
const HARMFUL: [&str; 6] = [
    "Leave closed doors",
    "Search only the nearest",
    "Do not heat",
    "One object is enough",
    "Leave lamps alone",
    "Take the first result",
];

fn is_harmful(text: &str) -> bool {
    HARMFUL.iter().any(|words| text.contains(words))
}

#[test]
fn skills_of_the_teacher_win_games() {
    let world = household(36, &[]);
    let before = play(&world, settings(), SimulatedHousehold::default(), "");
    let episodes = episodes("alfworld", &before, 1);
    let teacher = SimulatedTeacher::new(1).with_flaw_rate(0.0);
    // So many calls that lists have to be merged.
    let settings = DistillSettings { episodes_per_call: 12, ..DistillSettings::default() };
    let distilled = distilled(&teacher, &episodes, &settings);
    // Different calls may find the same words for the same lesson; nothing else is left out.
    let is_duplicate = |left: &LeftOut| matches!(left.reason, LeftOutReason::Duplicate { .. });
    assert!(distilled.left_out.iter().all(is_duplicate), "{:?}", distilled.left_out);
    assert_eq!(distilled.notes, Vec::<String>::new());
    assert!(!texts(&distilled).iter().any(|text| is_harmful(text)));
    let bank = bank_of(&distilled);
    let tiers: BTreeSet<&Tier> = bank.skills().map(|skill| &skill.tier).collect();
    assert!(tiers.len() >= 6, "general, mistakes and most types: {tiers:?}");
    let after = share(&play_with::<SimulatedHousehold>(&world, &bank));
    assert!(after >= share(&before) + 0.4, "{after} after {}", share(&before));
}

#[test]
fn skills_of_the_teacher_buy_better() {
    let world = shop(30);
    let before = play(&world, settings(), SimulatedShopper::default(), "");
    let episodes = episodes("webshop", &before, 1);
    let teacher = SimulatedTeacher::new(1).with_flaw_rate(0.0);
    let distilled = distilled(&teacher, &episodes, &DistillSettings::default());
    assert!(!texts(&distilled).iter().any(|text| is_harmful(text)));
    let after = share(&play_with::<SimulatedShopper>(&world, &bank_of(&distilled)));
    assert!(after >= share(&before) + 0.2, "{after} after {}", share(&before));
}

/// Evolution starts from an empty bank with a harmful skill in it, and goes on until little is left to teach.
#[test]
fn rounds_of_evolution_win_games() {
    let world = household(36, &[]);
    let teacher = SimulatedTeacher::new(3).with_flaw_rate(0.0);
    let mut bank = Bank::new();
    let content = Content::principle(
        "Save turns",
        "Leave closed doors and drawers closed: opening them costs turns.",
        "",
    );
    let harmful = admit(&mut bank, Tier::General, content);
    let mut results = play_with::<SimulatedHousehold>(&world, &bank);
    let before = share(&results);
    let mut touches_harmful = false;
    for round in 1..=5 {
        let outcome = evolved(&teacher, &bank, &episodes("alfworld", &results, round));
        assert!(outcome.left_out.is_empty() && outcome.notes.is_empty(), "{outcome:#?}");
        let wanted: Vec<_> = outcome.proposals.iter().map(|proposal| &proposal.change).collect();
        touches_harmful |= wanted.iter().any(|change| match change {
            Change::Revise { of, .. } | Change::Retire { of } => *of == harmful.skill,
            _ => false,
        });
        apply(&mut bank, round, &outcome.proposals, Admit::Unmeasured).unwrap();
        results = play_with::<SimulatedHousehold>(&world, &bank);
    }
    assert!(touches_harmful, "a skill against what failures show is revised or retired");
    assert!(share(&results) >= before + 0.3, "{} after {before}", share(&results));
}

#[test]
fn a_bank_that_teaches_what_failures_show_needs_no_change() {
    let world = household(18, &[]);
    let results = play(&world, settings(), SimulatedHousehold::default(), "");
    let teacher = SimulatedTeacher::new(3).with_flaw_rate(0.0);
    let episodes = episodes("alfworld", &results, 1);
    let full = bank_of(&distilled(&teacher, &episodes, &DistillSettings::default()));
    // The failures are those of an agent without a bank, so the bank teaches everything that they show.
    let outcome = evolved(&teacher, &full, &episodes);
    assert_eq!((outcome.proposals, outcome.left_out), (vec![], vec![]));
}

#[test]
fn flaws_come_at_their_rate() {
    let world = household(24, &[]);
    let episodes = episodes("alfworld", &play(&world, settings(), SimulatedHousehold::default(), ""), 1);
    let of = |rate: f64| -> Vec<String> {
        let texts = (0..4).flat_map(|seed| {
            let teacher = SimulatedTeacher::new(seed).with_flaw_rate(rate);
            texts(&distilled(&teacher, &episodes, &DistillSettings::default()))
        });
        texts.collect()
    };
    let n_harmful = |texts: &[String]| texts.iter().filter(|text| is_harmful(text)).count();
    let (none, some, all) = (of(0.0), of(0.3), of(1.0));
    assert_eq!(n_harmful(&none), 0);
    assert!(
        n_harmful(&some) > 0 && n_harmful(&some) < some.len() / 3,
        "{} of {}",
        n_harmful(&some),
        some.len()
    );
    assert!(n_harmful(&all) > n_harmful(&some) && n_harmful(&all) < all.len(), "{}", n_harmful(&all));
}

#[test]
fn the_same_seed_and_prompt_give_the_same_bytes() {
    let world = household(12, &[]);
    let episodes = episodes("alfworld", &play(&world, settings(), SimulatedHousehold::default(), ""), 1);
    let of = |seed| texts(&distilled(&SimulatedTeacher::new(seed), &episodes, &DistillSettings::default()));
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

/// Episodes of a clerk without house rules teach the rules, the codes of a field among them.
#[test]
fn questions_teach_the_forms_of_answers() {
    let rows = [
        ("When did she arrive?", "Arrived: 4 March 2025", "4 March 2025", "2025-03-04"),
        ("What is her state?", "State: under repair", "under repair", "UR"),
        ("What is her state?", "State: at anchor", "at anchor", "AA"),
    ];
    let mut read = Vec::new();
    for (number, (question, record, answer, reference)) in (0..).zip(rows) {
        let id = format!("q-{number}");
        let mut episode = Episode::new(&id, ItemId::new(&id), question, false, 0.0);
        "desk".clone_into(&mut episode.task_type);
        answer.clone_into(&mut episode.answer);
        reference.clone_into(&mut episode.reference);
        let asked = format!("Context:\nShip: Auk\n{record}\n\nQuestion: {question}");
        episode.steps = vec![EpisodeStep::new(asked, answer)];
        read.push(episode);
    }
    let teacher = SimulatedTeacher::new(1).with_flaw_rate(0.0);
    let bank = bank_of(&distilled(&teacher, &train(read), &DistillSettings::default()));
    let retrieval = Retrieval::new(RetrievalSettings::default()).unwrap();
    let shown = retrieval.select(&bank.view(), "desk", "", None).text;
    let clerk = SimulatedTarget::new(1);
    let ask = |record: &str, question: &str| {
        let task = format!("Context:\nShip: Auk\n{record}\n\nQuestion: {question}");
        let request = ChatRequest::new(vec![Message::system(shown.as_str()), Message::user(task)]);
        wait(clerk.chat(&request, &CallCtx::default())).unwrap().text
    };
    assert!(ask("Arrived: 7 May 2024", "When did she arrive?").contains("2024-05-07"), "{shown}");
    assert!(ask("State: at anchor", "What is her state?").contains("AA"), "{shown}");
}

#[test]
fn a_task_of_no_known_world_gets_a_platitude() {
    let mut episode = Episode::new("x-1", ItemId::new("x-1"), "compose a tune", false, 0.0);
    "music".clone_into(&mut episode.task_type);
    let teacher = SimulatedTeacher::new(1).with_flaw_rate(1.0);
    let distilled = distilled(&teacher, &train(vec![episode]), &DistillSettings::default());
    assert_eq!(distilled.proposals.len(), 3, "one for each tier");
    let other = ChatRequest::new(vec![Message::user("What is the capital of Belgium?")]);
    let reply = wait(teacher.chat(&other, &CallCtx::default())).unwrap().text;
    assert!(serde_json::from_str::<Value>(&reply).is_err(), "{reply}");
    assert_eq!(teacher.parameters(), json!({ "seed": 1, "flaw_rate": 1.0 }));
}

/// A mistake that is shown by a bank is not an order to make it.
#[test]
fn a_household_reads_mistakes_as_a_bank_shows_them() {
    let world = household(24, &[]);
    let mistake = |description: &str, how_to_avoid: &str| Content::Mistake {
        description: description.to_owned(),
        why_it_happens: String::new(),
        how_to_avoid: how_to_avoid.to_owned(),
    };
    let won = |contents: &[Content]| {
        let mut bank = Bank::new();
        for content in contents {
            let tier = match content {
                Content::Mistake { .. } => Tier::Mistakes,
                Content::Principle { .. } | Content::Episode { .. } => {
                    Tier::of_type("pick_heat_then_place_in_recep")
                }
            };
            admit(&mut bank, tier, content.clone());
        }
        share(&play_with::<SimulatedHousehold>(&world, &bank))
    };
    let good = [
        mistake("Leaves closed drawers closed", "Look on."),
        mistake("Gives up after a few places", "Go on."),
        mistake("Puts the object down before it is hot or cool or clean", "Be patient."),
        mistake("Never uses the lamp", "Mind what the task says."),
        mistake("Stops after the first of two objects", "Bring both, the second one too."),
    ];
    let nothing = [mistake("Gets lost in thoughts", "Stay calm.")];
    let (with, without) = (won(&good), won(&nothing));
    assert!(with >= 0.9, "{with}");
    let bad = [
        mistake("Opens closed drawers", "Save the turns."),
        mistake("Heats, cools or cleans things", "Put them down at once."),
    ];
    assert!(won(&bad) < without, "{} {without}", won(&bad));
    // Neither the name of a type nor the occasion of a skill is an order.
    let occasion = Content::principle("Stay calm", "Stay calm.", "the task asks for something hot");
    assert_eq!(won(&[occasion, nothing[0].clone()]), without);
}

#[test]
fn experts_need_no_skill() {
    let against = "Never open, heat, cool or clean anything. Leave lamps alone. Ignore the price.";
    let games = play(&household(36, &[]), settings(), HouseholdExpert::default(), against);
    assert_eq!(share(&games), 1.0);
    let world = shop(30);
    let best = share(&play(&world, settings(), ShopExpert::default(), against));
    let without = share(&play(&world, settings(), SimulatedShopper::default(), ""));
    assert!(best >= 0.65 && best >= without + 0.3, "{best} {without}");
}
