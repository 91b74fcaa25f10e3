//! What is wrong with a game is said with its place.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use crate::said::Said;
use skill_envs::alfworld::{Game, GameFile, Rules};

const ROOM: &str = "(define (problem p)
(:domain alfred)
(:objects agent1 - agent AppleType - otype ShelfType - rtype
  Apple_bar_1 - object Shelf_bar_1 - receptacle
  loc_bar_1 - location loc_bar_2 - location)
(:init (= (total-cost) 0) (canContain ShelfType AppleType)
  (receptacleType Shelf_bar_1 ShelfType) (receptacleAtLocation Shelf_bar_1 loc_bar_1)
  (objectType Apple_bar_1 AppleType) (pickupable Apple_bar_1)
  (inReceptacle Apple_bar_1 Shelf_bar_1)
  (atLocation agent1 loc_bar_2))
(:goal (exists (?o - object) (and (objectType ?o AppleType) (holds agent1 ?o)))))
";

/// Replaces a part of a good problem and tells what is said of the result.
#[track_caller]
fn told(good: &str, bad: &str) -> String {
    assert!(ROOM.contains(good), "{good}");
    match Game::from_problem(Rules::CURRENT, "hold an apple.", &ROOM.replace(good, bad)) {
        Ok(_) => panic!("{bad} is taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_no_problem_of_the_domain_is_named_with_line_and_column() {
    let mut said = Said::default();
    let mut check = |good: &str, bad: &str, names: &[&str]| said.add(&told(good, bad), names);
    assert!(Game::from_problem(Rules::CURRENT, "hold an apple.", ROOM).is_ok());
    check(
        "inReceptacle Apple",
        "inReceptical Apple",
        &["line 9", "column 4", "`inReceptical`", "`inReceptacle`"],
    );
    check("(holds agent1 ?o)", "(likes agent1 ?o)", &["line 11", "column 62", "`likes`"]);
    check(
        "(atLocation agent1 loc_bar_2)",
        "(atLocation agent1 loc_bar_7)",
        &["line 10", "column 22", "`loc_bar_7`"],
    );
    check(
        "(pickupable Apple_bar_1)",
        "(pickupable Apple_bar_1 Apple_bar_1)",
        &["line 8", "column 62", "`Apple_bar_1`", "`pickupable`"],
    );
    check("(pickupable Apple_bar_1)", "(pickupable)", &["line 8", "column 49", "`)`"]);
    check("loc_bar_1 - location", "loc_bar_1 - place", &["line 5", "column 15", "`place`"]);
    check(
        "Shelf_bar_1 - receptacle",
        "Shelf_bar_1 - receptacle Shelf_bar_1 - object",
        &["line 4", "column 49", "`Shelf_bar_1`"],
    );
    check("(holds agent1 ?o)", "(holds agent1 ?x)", &["line 11", "column 75", "`?x`"]);
    check("(:domain alfred)", "(:domain blocks)", &["line 2", "column 10", "`blocks`", "`alfred`"]);
    check("(:goal", "(:aim", &["line 11", "column 2", "`:aim`"]);
    check("?o)))))\n", "?o)))\n", &["line 12", "column 1", "`)`"]);
    check("?o)))))\n", "?o)))))\n)", &["line 12", "column 1"]);
    check("(= (total-cost) 0)", "(= 0)", &["line 6", "column 11", "`0`", "`(total-cost)`"]);
    let deep = format!("{}(holdsAny agent1)", "(not ".repeat(100));
    check("(holds agent1 ?o)", &deep, &["line 11", "column 376", "64"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn a_cut_problem_is_refused_wherever_it_is_cut() {
    for end in 0..ROOM.trim_end().len() {
        let text = ROOM.get(..end).unwrap_or_default();
        match Game::from_problem(Rules::CURRENT, "hold an apple.", text) {
            Ok(_) => panic!("taken: {text}"),
            Err(error) => assert!(error.to_string().starts_with("the problem, line "), "{error}"),
        }
    }
}

#[test]
fn a_room_that_cannot_be_played_is_named() {
    let mut said = Said::default();
    let mut check = |good: &str, bad: &str, names: &[&str]| said.add(&told(good, bad), names);
    check(
        "(inReceptacle Apple_bar_1 Shelf_bar_1)",
        "",
        &["`apple_bar_1`", "`inReceptacle`", "`inReceptacleObject`", "`objectAtLocation`", "`holds`"],
    );
    check("(atLocation agent1 loc_bar_2)", "", &["`(atLocation ..)`"]);
    check(
        "(atLocation agent1 loc_bar_2)",
        "(atLocation agent1 loc_bar_2) (atLocation agent1 loc_bar_1)",
        &[],
    );
    check(
        "(receptacleAtLocation Shelf_bar_1 loc_bar_1)",
        "(receptacleAtLocation Shelf_bar_1 loc_bar_1) (receptacleAtLocation Shelf_bar_1 loc_bar_2)",
        &["`shelf_bar_1`"],
    );
    check("agent1 - agent", "agent1 - agent b - agent", &["2"]);
    check(
        "(inReceptacle Apple_bar_1 Shelf_bar_1)",
        "(inReceptacle Shelf_bar_1 Apple_bar_1)",
        &["`inReceptacle`", "`shelf_bar_1`"],
    );
    check("(pickupable Apple_bar_1)", "(holds agent1 Apple_bar_1)", &["`holds`", "`holdsAny`"]);
    check("(holds agent1 ?o)", "(checked ?o)", &["`checked`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn an_unsolvable_game_says_what_stands_in_the_way() {
    let mut said = Said::default();
    let mut check = |good: &str, bad: &str, names: &[&str]| {
        let problem = ROOM.replace(good, bad);
        let game = Game::from_problem(Rules::CURRENT, "hold an apple.", &problem);
        match game.and_then(|game| game.plan()) {
            Ok(plan) => panic!("{bad} is solved: {plan:?}"),
            Err(error) => said.add(&error.to_string(), names),
        }
    };
    check("(objectType ?o AppleType)", "(objectType ?o ShelfType)", &[]);
    check("(pickupable Apple_bar_1)", "", &["1"]);
    check("(receptacleAtLocation Shelf_bar_1 loc_bar_1)", "", &["1"]);
    check("(holds agent1 ?o)", "(holds agent1 ?o) (isClean ?o)", &["1"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn other_rules_are_refused() {
    let mut said = Said::default();
    let mut check = |json: &str, names: &[&str]| {
        let file: GameFile<'_> = serde_json::from_str(json).unwrap();
        match file.game() {
            Ok(_) => panic!("{json} is taken"),
            Err(error) => said.add(&error.to_string(), names),
        }
    };
    let grammar = r#""grammar": "grammar :: \"Your task is to: x.\"""#;
    check(
        &format!(r#"{{"pddl_problem": "", {grammar}}}"#),
        &["`grammar`", "ca4ada7f76722514", "ab7832e463c5eea8", "0.2", "0.3", "56608cb77f438c90", "0.4"],
    );
    check(r#"{"pddl_problem": ""}"#, &["`grammar`"]);
    check(
        &format!(r#"{{"pddl_problem": "", "rules": "alfworld-0.4", {grammar}}}"#),
        &["`grammar`", "`rules`"],
    );
    check(r#"{"pddl_problem": "", "rules": "alfworld-0.4"}"#, &["`task`", "`rules`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn another_domain_is_refused_beside_a_known_grammar() {
    let mut said = Said::default();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/alfworld/sliced-hot-apple.json");
    let text = std::fs::read_to_string(data).unwrap_or_default();
    let transcript: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let grammar = transcript["game"]["grammar"].as_str().unwrap_or_default();
    assert_eq!(Rules::recognise(None, grammar), Ok(Rules::CURRENT));
    match Rules::recognise(Some("(define (domain alfred))"), grammar) {
        Ok(_) => panic!("another domain is taken"),
        Err(error) => said.add(&error.to_string(), &["`pddl_domain`", "bba0e16b4b866a0c"]),
    }
    insta::assert_snapshot!(said.text());
}
