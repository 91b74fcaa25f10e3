//! What the domain and the grammar say and no transcript shows.
//!
//! The expectations here were read, not recorded: where one turns out to differ from the engine, record a transcript
//! and mend the rules.
#![expect(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use super::alfworld_generated::check_plan;
use skill_envs::alfworld::{Game, Play, Rules, TaskType};
use std::fmt::Write as _;
use std::sync::Arc;

/// Receptacles as `class location openable`, objects as `class number-of-receptacle qualities ..`.
fn problem(receptacles: &[&str], objects: &[&str], goal: &str) -> String {
    let (mut names, mut facts) = (String::from("agent1 - agent loc_bar_99 - location "), String::new());
    let mut receptacle_ids = Vec::new();
    for (receptacle, number) in receptacles.iter().zip(1..) {
        let words: Vec<&str> = receptacle.split(' ').collect();
        // A class is followed by `basin` where the raw name contains it.
        let (class, part) =
            words[0].strip_suffix("Basin").map_or((words[0], ""), |whole| (whole, "_bar_Basin"));
        let id = format!("{class}_bar_{number:03}{part}");
        write!(names, "{id} - receptacle {0}Type - rtype loc_bar_{1} - location ", words[0], words[1])
            .unwrap();
        write!(
            facts,
            "(receptacleType {id} {0}Type) (receptacleAtLocation {id} loc_bar_{1}) ",
            words[0], words[1]
        )
        .unwrap();
        if words.contains(&"openable") {
            write!(facts, "(openable {id}) ").unwrap();
        }
        for object in objects {
            let class = object.split(' ').next().unwrap();
            write!(facts, "(canContain {0}Type {class}Type) ", words[0]).unwrap();
        }
        receptacle_ids.push((id, words[1]));
    }
    for (object, number) in objects.iter().zip(1..) {
        let words: Vec<&str> = object.split(' ').collect();
        let id = format!("{}_bar_{number:03}", words[0]);
        write!(names, "{id} - object {0}Type - otype ", words[0]).unwrap();
        let (receptacle, location) = &receptacle_ids[words[1].parse::<usize>().unwrap() - 1];
        write!(facts, "(objectType {id} {0}Type) (inReceptacle {id} {receptacle}) ", words[0]).unwrap();
        write!(facts, "(objectAtLocation {id} loc_bar_{location}) (pickupable {id}) ").unwrap();
        for quality in words.iter().skip(2) {
            write!(facts, "({quality} {id}) ").unwrap();
        }
    }
    format!(
        "(define (problem p) (:domain alfred) (:objects {names}) (:init {facts} (atLocation agent1 loc_bar_99)) \
         (:goal {goal}))"
    )
}

const NO_GOAL: &str = "(exists (?o - object) (isToggled ?o))";

fn game(problem: &str) -> Game {
    Game::from_problem(Rules::CURRENT, "do it.", problem).unwrap_or_else(|error| panic!("{error}\n{problem}"))
}

/// What the last of these commands is answered.
#[track_caller]
fn check(problem: &str, commands: &[&str], expect: &str) {
    let mut play = Play::new(Arc::new(game(problem)));
    let mut answer = play.reset().observation.to_owned();
    for command in commands {
        answer = play.step(command).observation.to_owned();
    }
    assert_eq!(answer, expect, "{commands:?}");
}

/// A kitchen in which everything can be done to an apple.
fn kitchen(goal: &str) -> String {
    problem(
        &["CounterTop 1", "Fridge 2 openable", "Microwave 3 openable", "SinkBasin 4", "Drawer 5 openable"],
        &[
            "Apple 1 sliceable cleanable heatable coolable",
            "Apple 2 sliceable cleanable heatable coolable",
            "Knife 5 cleanable",
            "ButterKnife 1",
            "Spoon 1",
        ],
        goal,
    )
}

#[test]
fn an_object_says_the_first_thing_that_is_true_of_it() {
    let cut =
        ["go to countertop 1", "take butterknife 1 from countertop 1", "slice apple 2 with butterknife 1"];
    let put_down = ["move butterknife 1 to countertop 1", "take apple 2 from countertop 1"];
    let wash = ["go to sinkbasin 1", "clean apple 2 with sinkbasin 1"];
    let heat = ["go to microwave 1", "heat apple 2 with microwave 1"];
    let cool = ["go to fridge 1", "cool apple 2 with fridge 1"];
    let take = &["go to countertop 1", "take apple 2 from countertop 1"][..];
    let sliced = &[&cut[..], &put_down[..]].concat()[..];
    let case = |parts: &[&[&str]], expect: &str| {
        let mut commands = parts.concat();
        commands.push("examine apple 2");
        check(&kitchen(NO_GOAL), &commands, expect);
    };
    case(&[take], "There's nothing special about apple 2.");
    case(&[take, &wash], "This is a clean apple 2.");
    case(&[take, &heat], "This is a hot apple 2.");
    case(&[take, &cool], "This is a cold apple 2.");
    case(&[take, &heat, &cool], "This is a cold apple 2.");
    case(&[take, &cool, &heat], "This is a hot apple 2.");
    case(&[take, &wash, &heat], "This is a hot and clean apple 2.");
    case(&[take, &cool, &wash], "This is a cool and clean apple 2.");
    case(&[sliced], "This is a sliced apple 2.");
    case(&[sliced, &wash], "This is a clean sliced apple 2.");
    case(&[sliced, &heat], "This is a hot sliced apple 2.");
    case(&[sliced, &cool], "This is a cool sliced apple 2.");
    case(&[sliced, &heat, &wash], "This is a hot and clean sliced apple 2.");
    case(&[sliced, &wash, &cool], "This is a cool and clean sliced apple 2.");
}

#[test]
fn only_what_the_rules_allow_is_done() {
    let nothing = "Nothing happens.";
    let case = |commands: &[&str], expect: &str| check(&kitchen(NO_GOAL), commands, expect);
    let take = ["go to countertop 1", "take spoon 1 from countertop 1"];
    // A spoon cuts nothing, and is neither cleaned nor heated here; what is held is not cut.
    case(&[&take[..], &["slice apple 2 with spoon 1"]].concat(), nothing);
    case(&[&take[..], &["go to sinkbasin 1", "clean spoon 1 with sinkbasin 1"]].concat(), nothing);
    case(&[&take[..], &["go to microwave 1", "heat spoon 1 with microwave 1"]].concat(), nothing);
    case(&[&take[..], &["take apple 2 from countertop 1"]].concat(), nothing);
    case(&["go to countertop 1", "take apple 2 from countertop 1", "slice apple 2 with apple 2"], nothing);
    case(&["go to countertop 1", "examine spoon 1"], nothing);
    // What is closed is neither emptied nor filled.
    case(&["go to fridge 1", "take apple 1 from fridge 1"], nothing);
    case(&[&take[..], &["go to drawer 1", "move spoon 1 to drawer 1"]].concat(), nothing);
    case(&[&take[..], &["go to drawer 1", "put spoon 1 in/on drawer 1"]].concat(), nothing);
    // What is not here is not used, and what cannot be opened is not.
    case(&["open drawer 1"], nothing);
    case(&["go to countertop 1", "open countertop 1"], nothing);
    case(&["go to countertop 1", "close countertop 1"], nothing);
    case(&["go to countertop 1", "go to countertop 1"], nothing);
    case(&["go to drawer 1", "close drawer 1"], nothing);
    case(&["go to drawer 1", "open drawer 1", "open drawer 1"], nothing);
    // A knife reaches into what is closed: cutting asks where a thing is, not whether it is to be seen.
    case(
        &[
            "go to countertop 1",
            "take butterknife 1 from countertop 1",
            "go to fridge 1",
            "slice apple 1 with butterknife 1",
        ],
        "You sliced the apple 1 with the butterknife 1.",
    );
    // Heating and cooling ask for no open door.
    case(
        &[
            "go to countertop 1",
            "take apple 2 from countertop 1",
            "go to fridge 1",
            "cool apple 2 with fridge 1",
        ],
        "You cool the apple 2 using the fridge 1.",
    );
}

#[test]
fn commands_are_compared_by_letter_after_blanks_are_cut_off() {
    let case = |command: &str, expect: &str| check(&kitchen(NO_GOAL), &["go to drawer 1", command], expect);
    case(
        "\t\u{1c} open drawer 1\n",
        "You open the drawer 1. The drawer 1 is open. In it, you see a knife 1.",
    );
    for command in
        ["Open drawer 1", "open  drawer 1", "open drawer", "open drawer 1.", "open drawer 01", "", "open"]
    {
        case(command, "Nothing happens.");
    }
    case("examine drawer 1", "The drawer 1 is closed.");
}

#[test]
fn numbers_are_given_out_from_the_highest_down_in_the_order_of_raw_names() {
    let shelves: Vec<String> = (0..12).map(|number| format!("Shelf {number}")).collect();
    let shelves: Vec<&str> = shelves.iter().map(String::as_str).collect();
    let mugs: Vec<String> = (1..=11).map(|_| "Mug 1".to_owned()).collect();
    let mugs: Vec<&str> = mugs.iter().map(String::as_str).collect();
    let room = problem(&shelves, &mugs, "(exists (?o - object) (isClean ?o))");
    check(
        &room,
        &["go to shelf 12"],
        "You arrive at shelf 12. On the shelf 12, you see a mug 11, a mug 10, a mug 9, a mug 8, a mug 7, a mug 6, a mug \
         5, a mug 4, a mug 3, a mug 2, and a mug 1.",
    );
    let mut play = Play::new(Arc::new(game(&room)));
    play.reset();
    play.step("go to shelf 12");
    let taken: Vec<String> =
        play.admissible().into_iter().filter(|command| command.starts_with("take")).collect();
    let take = |mug: usize| format!("take mug {mug} from shelf 12");
    assert_eq!(taken[..3], [1, 10, 11].map(take));
    assert!(play.step(&take(10)).understood);
}

#[test]
fn a_basin_is_named_by_what_its_raw_name_contains() {
    let room = "(define (problem p) (:domain alfred) (:objects agent1 - agent l - location m - location \
                Sink_bar_1_bar_SinkBasin - receptacle Bathtub_bar_1_bar_BathtubBasin - receptacle Sink_bar_2 - \
                receptacle Unused_bar_1 - receptacle) (:init (receptacleAtLocation Sink_bar_1_bar_SinkBasin l) \
                (receptacleAtLocation Bathtub_bar_1_bar_BathtubBasin l) (receptacleAtLocation Sink_bar_2 l) \
                (atLocation agent1 m)) (:goal (exists (?r - receptacle) (opened ?r))))";
    check(
        room,
        &[],
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around \
                      you, you see a bathtubbasin 1, a sinkbasin 1, and a sink 1.\n\nYour task is to: do it.",
    );
}

/// A goal, the kind of task it is taken for, and whether a plan is found.
#[track_caller]
fn check_goal(goal: &str, task: TaskType, is_solvable: bool) {
    let game = game(&kitchen(goal));
    assert_eq!(game.task_type(), task, "{goal}");
    match game.plan() {
        Ok(plan) => {
            assert!(is_solvable, "{goal}: {plan:?}");
            let mut play = Play::new(Arc::new(game));
            check_plan(goal, &mut play, &plan);
        }
        Err(error) => assert!(!is_solvable, "{goal}: {error}"),
    }
}

/// The goal that an object of a kind is in a receptacle of a kind, with more conditions on the object.
fn placed(object: &str, receptacle: &str, more: &str) -> String {
    format!(
        "(and (exists (?r - receptacle) (exists (?o - object) (and {more} (objectType ?o {object}Type) (receptacleType \
         ?r {receptacle}Type) (inReceptacle ?o ?r)))))"
    )
}

#[test]
fn goals_with_sliced_objects_are_planned_and_recognised() {
    let sliced = "(sliceable ?o) (isSliced ?o)";
    check_goal(&placed("Apple", "Drawer", sliced), TaskType::PickAndPlace, true);
    let case = |more: &str, task| {
        check_goal(&placed("Apple", "CounterTop", &format!("{sliced} {more}")), task, true);
    };
    case("(cleanable ?o) (isClean ?o)", TaskType::CleanAndPlace);
    case("(heatable ?o) (isHot ?o)", TaskType::HeatAndPlace);
    case("(coolable ?o) (isCool ?o)", TaskType::CoolAndPlace);
    let two = "(and (exists (?r - receptacle) (exists (?a - object) (and (isSliced ?a) (objectType ?a AppleType) \
               (receptacleType ?r DrawerType) (inReceptacle ?a ?r) (exists (?b - object) (and (not (= ?a ?b)) \
               (isSliced ?b) (objectType ?b AppleType) (inReceptacle ?b ?r)))))))";
    check_goal(two, TaskType::PickTwoAndPlace, true);
    // There is no knife that cuts a spoon, and only one of them.
    check_goal(&placed("Spoon", "Drawer", "(isSliced ?o)"), TaskType::PickAndPlace, false);
    check_goal(
        &two.replace("Apple", "Spoon").replace("(isSliced ?a)", "").replace("(isSliced ?b)", ""),
        TaskType::PickTwoAndPlace,
        false,
    );
    // Heat undoes cold, and cold heat.
    check_goal(&placed("Apple", "Drawer", "(isHot ?o) (isCool ?o)"), TaskType::HeatAndPlace, false);
    check_goal(&placed("Apple", "Drawer", "(isCool ?o) (isHot ?o)"), TaskType::HeatAndPlace, false);
}

#[test]
fn goals_in_other_forms_mean_what_they_say() {
    check_goal("(exists (?r - receptacle) (opened ?r))", TaskType::PickAndPlace, true);
    check_goal(
        "(forall (?o - object) (or (not (objectType ?o SpoonType)) (exists (?a - agent) (holds ?a ?o))))",
        TaskType::PickAndPlace,
        true,
    );
    check_goal("(imply (holdsAny agent1) (holds agent1 Knife_bar_003))", TaskType::PickAndPlace, true);
    check_goal("(and (atLocation agent1 loc_bar_3) (not (holdsAny agent1)))", TaskType::PickAndPlace, true);
    check_goal(
        "(exists (?o - object) (and (objectType ?o KnifeType) (objectAtLocation ?o loc_bar_5)))",
        TaskType::PickAndPlace,
        true,
    );
    check_goal("(or (and) (holdsAny agent1))", TaskType::PickAndPlace, true);
    check_goal("(or)", TaskType::PickAndPlace, false);
    check_goal("(openable Apple_bar_001)", TaskType::PickAndPlace, false);
    check_goal("(inReceptacle Drawer_bar_005 Apple_bar_001)", TaskType::PickAndPlace, false);
}

#[test]
fn a_goal_can_be_lost_again_and_the_first_rules_say_it_in_their_words() {
    let game = Game::from_problem(
        Rules::FIRST,
        "put a knife on counter.",
        &kitchen(&placed("Knife", "CounterTop", "")),
    );
    let mut play = Play::new(Arc::new(game.unwrap()));
    play.reset();
    let mut said = Vec::new();
    for command in [
        "help",
        "go to drawer 1",
        "open drawer 1",
        "take knife 1 from drawer 1",
        "go to countertop 1",
        "move knife 1 to countertop 1",
        "put knife 1 in/on countertop 1",
        "look",
        "take knife 1 from countertop 1",
    ] {
        let turn = play.step(command);
        said.push((turn.observation.to_owned(), turn.done));
    }
    let expect = [
        ("Nothing happens.", false),
        ("You arrive at loc 2. The drawer 1 is closed.", false),
        ("You open the drawer 1. The drawer 1 is open. In it, you see a knife 1.", false),
        ("You pick up the knife 1 from the drawer 1.", false),
        (
            "You arrive at loc 6. On the countertop 1, you see a apple 2, a butterknife 1, and a spoon 1.",
            false,
        ),
        ("Nothing happens.", false),
        ("You put the knife 1 in/on the countertop 1.", true),
        ("You are facing the countertop 1. Next to it, you see nothing.", true),
        ("You pick up the knife 1 from the countertop 1.", false),
    ];
    assert_eq!(said, expect.map(|(text, done)| (text.to_owned(), done)));
}
