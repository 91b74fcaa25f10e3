//! Scripted players behind the agent loop: what they do follows from their skill, and from nothing else.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use parking_lot::Mutex;
use skill_core::random::Dice;
use skill_core::{RolloutResult, SkillDoc};
use skill_envs::agent::{ActionFormat, AgentSettings, WorldEnv};
use skill_envs::alfworld::{AlfworldConfig, AlfworldWorld, GeneratedConfig, TaskType};
use skill_envs::webshop::{WebshopConfig, WebshopWorld};
use skill_envs::{Env, RolloutCtx, Split, World};
use skill_sim::{
    HouseholdExpert, Move, Player, SimulatedAgent, SimulatedHousehold, SimulatedShopper, Situation,
};
use std::sync::Arc;

const OPEN: &str = "If a drawer is closed, open it and look inside.";
const SEARCH: &str = "Search every place in the room once, one after the other.";
const HEAT: &str = "Heat what must be hot with the microwave.";
const COOL: &str = "Put into the fridge what must be cool, and cool it there.";
const CLEAN: &str = "Rinse what must be clean in the sinkbasin.";
const LAMP: &str = "Carry the object to the lamp and turn it on.";
const BOTH: &str = "Where two are asked for, fetch the second as well.";
const HOUSEHOLD: [&str; 7] = [OPEN, SEARCH, HEAT, COOL, CLEAN, LAMP, BOTH];

const KEY_WORDS: &str = "Search with the key words of the instruction.";
const PRICE: &str = "Check the price: never pay more than the limit.";
const NAMES: &str = "Compare the results, and take the one whose name fits best.";
const OPTIONS: &str = "Click every option that the instruction names before you buy.";
const FEATURES: &str = "Read the features first.";
const OTHERS: &str = "If something is missing, go back and try another product.";
const SHOP: [&str; 6] = [KEY_WORDS, PRICE, NAMES, OPTIONS, FEATURES, OTHERS];

pub(crate) fn household(n_games: usize, task_types: &[TaskType]) -> Arc<dyn World> {
    let generated =
        GeneratedConfig { seed: 42, train: n_games, val: 1, test: 1, ..GeneratedConfig::default() };
    let config = AlfworldConfig { generated, task_types: task_types.to_vec(), ..AlfworldConfig::default() };
    Arc::new(AlfworldWorld::new(&config).unwrap())
}

pub(crate) fn shop(n_goals: usize) -> Arc<dyn World> {
    let config = WebshopConfig {
        split_ratio: Some([1, 1, 1].into()),
        limits: [Some(n_goals), Some(1), Some(1)],
        ..WebshopConfig::default()
    };
    Arc::new(WebshopWorld::load(&config).unwrap())
}

pub(crate) fn settings() -> AgentSettings {
    let max_repetitions = Some(3);
    AgentSettings { history_turns: Some(50), max_turns: 40, max_repetitions, ..AgentSettings::default() }
}

pub(crate) fn play(
    world: &Arc<dyn World>,
    settings: AgentSettings,
    player: impl Player,
    skill: &str,
) -> Vec<RolloutResult> {
    play_by(world, settings, &SimulatedAgent::new(player, 7), skill)
}

pub(crate) fn play_by<P: Player>(
    world: &Arc<dyn World>,
    settings: AgentSettings,
    agent: &SimulatedAgent<P>,
    skill: &str,
) -> Vec<RolloutResult> {
    let env = WorldEnv::new(Arc::clone(world), settings, None).unwrap();
    let skill = SkillDoc::new(skill);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut results = Vec::new();
        for item in env.items(Split::Train) {
            results.push(env.rollout(item, &skill, agent, &RolloutCtx::default()).await.unwrap());
        }
        results
    })
}

pub(crate) fn share(results: &[RolloutResult]) -> f64 {
    results.iter().map(|result| result.hard).sum::<f64>() / results.len() as f64
}

/// The share of games that are won with this skill.
fn chores(world: &Arc<dyn World>, skill: &[&str]) -> f64 {
    share(&play(world, settings(), SimulatedHousehold::default(), &skill.join("\n")))
}

fn purchases(world: &Arc<dyn World>, skill: &[&str]) -> Vec<RolloutResult> {
    play(world, settings(), SimulatedShopper::default(), &skill.join("\n"))
}

/// The actions of an episode.
fn actions(result: &RolloutResult) -> Vec<&str> {
    result.trajectory.turns.iter().filter_map(|turn| turn.action.as_deref()).collect()
}

#[test]
fn a_skill_decides_about_chores() {
    let world = household(24, &[]);
    let (without, with) = (chores(&world, &["Be quick."]), chores(&world, &HOUSEHOLD));
    assert!((0.05..0.35).contains(&without), "{without}");
    assert!(with >= 0.9, "{with}");
    let forbidden =
        ["Leave closed doors closed.", "Search the nearest places only.", "Never heat, cool or clean."];
    let spoiled: Vec<&str> = HOUSEHOLD.into_iter().chain(forbidden).collect();
    assert!(chores(&world, &spoiled) < 0.5);
}

#[test]
fn each_habit_of_the_household_counts() {
    use TaskType as T;
    let kinds: [(&[TaskType], &str, &str); 7] = [
        (&[T::HeatAndPlace], HEAT, "Never heat anything."),
        (&[T::CoolAndPlace], COOL, "Do not cool things."),
        (&[T::CleanAndPlace], CLEAN, "Do not wash anything."),
        (&[T::LookInLight], LAMP, "Leave lamps alone."),
        (&[T::PickTwoAndPlace], BOTH, "Do not fetch a second one."),
        (&[T::PickAndPlace, T::PickTwoAndPlace], OPEN, "Never open anything."),
        (&[T::PickAndPlace, T::PickTwoAndPlace], SEARCH, "Give up after a few places."),
    ];
    for (tasks, rule, contrary) in kinds {
        let world = household(10, tasks);
        let with = chores(&world, &HOUSEHOLD);
        let mut rules = HOUSEHOLD.to_vec();
        rules.push(contrary);
        let against = chores(&world, &rules);
        assert!(with >= 0.8, "{rule} {with}");
        assert!(against <= with - 0.1, "{contrary} {against} {with}");
    }
}

#[test]
fn a_skill_decides_about_purchases() {
    let world = shop(40);
    let (without, with) = (purchases(&world, &["Be quick."]), purchases(&world, &SHOP));
    assert!((0.05..0.3).contains(&share(&without)), "{}", share(&without));
    assert!(share(&with) >= 0.65, "{}", share(&with));
}

#[test]
fn each_habit_of_the_shop_shows() {
    let world = shop(12);
    let all_do = |skill: &[&str], does: &dyn Fn(&RolloutResult, &[&str]) -> bool| {
        let results = purchases(&world, skill);
        results.iter().filter(|result| does(result, &actions(result))).count() == results.len()
    };
    let opened = |actions: &[&str]| actions.iter().filter(|action| action.starts_with("click[b0")).count();
    let fillers =
        |_: &RolloutResult, actions: &[&str]| !actions[0].contains(" is ") && actions[0].contains(' ');
    let reads = |_: &RolloutResult, actions: &[&str]| actions.contains(&"click[features]");
    let buys = |_: &RolloutResult, actions: &[&str]| actions.last() == Some(&"click[buy now]");
    for (rule, expect) in [(KEY_WORDS, true), ("Search for a single word.", false)] {
        assert_eq!(all_do(&[rule], &fillers), expect, "{rule}");
    }
    assert!(all_do(&SHOP, &reads) && all_do(&SHOP, &buys));
    let hasty = ["Do not read features.", "Settle for the first."];
    assert!(all_do(&hasty, &|result, actions| !reads(result, actions) && opened(actions) == 1));
    let chooses = |skill: &[&str]| {
        let results = purchases(&world, skill);
        let clicks = |result: &RolloutResult| actions(result).len();
        results.iter().map(clicks).sum::<usize>()
    };
    let quick = ["Search with the key words.", "Do not read features.", "Settle for what you have opened."];
    let with_options: Vec<&str> = quick.into_iter().chain([OPTIONS]).collect();
    let without_options: Vec<&str> = quick.into_iter().chain(["Do not click options."]).collect();
    assert!(chooses(&with_options) > chooses(&without_options));
    assert_eq!(chooses(&without_options), 3 * 12);
}

#[test]
fn the_same_seed_plays_the_same() {
    let world = household(6, &[]);
    let once = || play(&world, settings(), SimulatedHousehold::default(), OPEN);
    assert_eq!(once(), once());
    let world = shop(6);
    assert_eq!(purchases(&world, &[OPTIONS]), purchases(&world, &[OPTIONS]));
}

/// Tags or a tool, thoughts, and whether the possible actions are told: the player makes do with all of them.
#[test]
fn every_form_of_prompt_is_understood() {
    let world = household(6, &[TaskType::PickAndPlace, TaskType::LookInLight]);
    for show_admissible in [true, false] {
        for action_format in ActionFormat::ALL {
            let settings = AgentSettings { action_format, show_admissible, ..settings() };
            let results =
                play(&world, settings.clone(), SimulatedHousehold::default(), &HOUSEHOLD.join("\n"));
            assert!(share(&results) >= 0.8, "{settings:?} {}", share(&results));
            let invalid: u32 = results.iter().map(|result| result.trajectory.invalid_actions).sum();
            assert!(invalid <= 6, "{settings:?} {invalid}");
        }
    }
    let world = shop(6);
    let rich = WebshopConfig {
        observation: skill_envs::webshop::ObservationForm::TextRich,
        split_ratio: Some([1, 1, 1].into()),
        limits: [Some(6), Some(1), Some(1)],
        ..WebshopConfig::default()
    };
    let rich: Arc<dyn World> = Arc::new(WebshopWorld::load(&rich).unwrap());
    let plain = purchases(&world, &SHOP);
    for (world, show_admissible) in [(&world, false), (&rich, true), (&rich, false)] {
        let settings = AgentSettings { show_admissible, ..settings() };
        let other = play(world, settings, SimulatedShopper::default(), &SHOP.join("\n"));
        assert_eq!(
            other.iter().map(actions).collect::<Vec<_>>(),
            plain.iter().map(actions).collect::<Vec<_>>()
        );
    }
}

/// An expert knows what the world shows: no form of the prompt, and no limit of it, keeps a game from being won.
#[test]
fn an_expert_reads_the_world_and_not_the_prompt() {
    let worlds = [40, 12].map(|n_games| household(n_games, &[]));
    let agent = SimulatedAgent::new(HouseholdExpert::default(), 7).with_memory();
    let defaults = AgentSettings::default();
    let hidden = AgentSettings { show_admissible: false, ..defaults.clone() };
    let forgetful =
        AgentSettings { history_turns: Some(0), action_format: ActionFormat::Tool, ..hidden.clone() };
    let short = AgentSettings { max_observation_characters: 40, ..hidden.clone() };
    for (world, settings) in worlds.iter().zip([hidden, forgetful]).chain([(&worlds[1], short)]) {
        let results = play_by(world, settings.clone(), &agent, "");
        let lost = results.iter().filter(|result| result.hard < 1.0);
        let lost: Vec<&str> = lost.map(|result| result.id.as_str()).collect();
        assert_eq!(lost, Vec::<&str>::new(), "{settings:?}");
        assert!(results.iter().all(|result| result.trajectory.invalid_actions == 0), "{settings:?}");
    }
    // What it does is what it does with the list in its prompt.
    let with = play_by(&worlds[1], defaults.clone(), &agent, "");
    let without = play_by(&worlds[1], AgentSettings { show_admissible: false, ..defaults }, &agent, "");
    assert_eq!(with.iter().map(actions).collect::<Vec<_>>(), without.iter().map(actions).collect::<Vec<_>>());
}

/// A mistake changes nothing, and the expert goes on as if it had not made it.
#[test]
fn an_expert_with_mistakes_wins_all_the_same() {
    let world = household(24, &[TaskType::PickAndPlace, TaskType::LookInLight]);
    let settings = AgentSettings { show_admissible: false, think: false, max_turns: 80, ..settings() };
    let played = |mistakes: f64| {
        let expert = HouseholdExpert::default().with_mistakes(mistakes);
        let agent = SimulatedAgent::new(expert, 7).with_memory().with_thoughts(false);
        play_by(&world, settings.clone(), &agent, "")
    };
    let (without, with) = (played(0.0), played(0.2));
    assert!((share(&without) - 1.0).abs() < 1e-9 && (share(&with) - 1.0).abs() < 1e-9);
    let understood = |result: &RolloutResult| {
        let turns = result.trajectory.turns.iter().filter(|turn| turn.understood == Some(true));
        turns.map(|turn| turn.action.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        with.iter().map(understood).collect::<Vec<_>>(),
        without.iter().map(understood).collect::<Vec<_>>()
    );
    let n_turns: usize = with.iter().map(|result| result.trajectory.turns.len()).sum();
    let n_mistakes: u32 = with.iter().map(|result| result.trajectory.invalid_actions).sum();
    let of_all = f64::from(n_mistakes) / n_turns as f64;
    assert!((0.1..0.25).contains(&of_all), "{of_all}");
    // Without thoughts a reply is its action and nothing else.
    let reply = &with[0].trajectory.messages[2].content;
    assert!(reply.starts_with("<action>") && reply.ends_with("</action>"), "{reply}");
}

/// A shopper who notes what is known at each move.
#[derive(Clone, Default)]
struct Witness {
    seen: Arc<Mutex<Vec<Situation>>>,
}

impl Player for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn instructions(&self) -> Vec<&'static str> {
        SimulatedShopper::default().instructions()
    }

    fn decide(&self, situation: &Situation, _: Dice) -> Move {
        let mut seen = self.seen.lock();
        seen.push(situation.clone());
        Move { thought: "Hm.".to_owned(), action: format!("search[{}]", seen.len()) }
    }
}

/// What the world says of itself is not a skill, though it speaks of options; and what is left out of a prompt is gone.
#[test]
fn a_player_knows_what_the_prompt_holds() {
    let witness = Witness::default();
    let settings = AgentSettings { history_turns: Some(2), max_turns: 5, ..settings() };
    play(&shop(1), settings, witness.clone(), "Be quick.");
    let seen = witness.seen.lock();
    assert_eq!(seen.len(), 5);
    for situation in seen.iter() {
        assert!(situation.skill.trim().starts_with("Be quick."), "{}", situation.skill);
        assert!(!situation.skill.contains("option"), "{}", situation.skill);
        assert!(situation.opening().starts_with("WebShop [SEP] Instruction:"), "{}", situation.opening());
    }
    let last = &seen[4];
    let past: Vec<Option<&str>> = last.past.iter().map(|turn| turn.action.as_deref()).collect();
    assert_eq!(past, [None, Some("search[3]"), Some("search[4]")]);
    assert!(last.observation.starts_with("Instruction:"), "{}", last.observation);
    assert!(last.admissible.iter().flatten().any(|action| action == "click[back to search]"));
}
