//! What is wrong with a game is said with its place.
#![expect(clippy::panic, reason = "a test fails by panicking")]

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
fn said(good: &str, bad: &str) -> String {
    assert!(ROOM.contains(good), "{good}");
    match Game::from_problem(Rules::CURRENT, "hold an apple.", &ROOM.replace(good, bad)) {
        Ok(_) => panic!("{bad} is taken"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(good: &str, bad: &str, expect: &str) {
    assert_eq!(said(good, bad), expect);
}

#[test]
fn what_is_no_problem_of_the_domain_is_named_with_line_and_column() {
    assert!(Game::from_problem(Rules::CURRENT, "hold an apple.", ROOM).is_ok());
    check(
        "inReceptacle Apple",
        "inReceptical Apple",
        "the problem, line 9, column 4: unknown predicate `inReceptical`; did you mean `inReceptacle`?",
    );
    check(
        "(holds agent1 ?o)",
        "(likes agent1 ?o)",
        "the problem, line 11, column 62: unknown predicate `likes`",
    );
    check(
        "(atLocation agent1 loc_bar_2)",
        "(atLocation agent1 loc_bar_7)",
        "the problem, line 10, column 22: `loc_bar_7` is not among the objects",
    );
    check(
        "(pickupable Apple_bar_1)",
        "(pickupable Apple_bar_1 Apple_bar_1)",
        "the problem, line 8, column 62: found `Apple_bar_1`, after the one argument of `pickupable`",
    );
    check(
        "(pickupable Apple_bar_1)",
        "(pickupable)",
        "the problem, line 8, column 49: found `)`, expected a name",
    );
    check(
        "loc_bar_1 - location",
        "loc_bar_1 - place",
        "the problem, line 5, column 15: unknown type `place`; the domain has agent, location, receptacle, object, \
         rtype and otype",
    );
    check(
        "Shelf_bar_1 - receptacle",
        "Shelf_bar_1 - receptacle Shelf_bar_1 - object",
        "the problem, line 4, column 49: `Shelf_bar_1` is declared with two types",
    );
    check(
        "(holds agent1 ?o)",
        "(holds agent1 ?x)",
        "the problem, line 11, column 75: no quantifier binds `?x`",
    );
    check(
        "(:domain alfred)",
        "(:domain blocks)",
        "the problem, line 2, column 10: found `blocks`, expected `alfred`",
    );
    check(
        "(:goal",
        "(:aim",
        "the problem, line 11, column 2: unknown section `:aim`; expected :domain, :objects, :init, :goal or :metric",
    );
    check("?o)))))\n", "?o)))\n", "the problem, line 12, column 1: the text ends, expected `)`");
    check("?o)))))\n", "?o)))))\n)", "the problem, line 12, column 1: text after the problem's end");
    check(
        "(= (total-cost) 0)",
        "(= 0)",
        "the problem, line 6, column 11: found `0`, expected a function such as `(total-cost)`",
    );
    let deep = format!("{}(holdsAny agent1)", "(not ".repeat(100));
    check("(holds agent1 ?o)", &deep, "the problem, line 11, column 376: nested more than 64 deep");
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
    check(
        "(inReceptacle Apple_bar_1 Shelf_bar_1)",
        "",
        "the problem: the object `apple_bar_1` (apple 1) has no place; expected `inReceptacle`, `inReceptacleObject`, \
         `objectAtLocation` or `holds`",
    );
    check(
        "(atLocation agent1 loc_bar_2)",
        "",
        "the problem: the player is nowhere; a fact `(atLocation ..)` is missing",
    );
    check(
        "(atLocation agent1 loc_bar_2)",
        "(atLocation agent1 loc_bar_2) (atLocation agent1 loc_bar_1)",
        "the problem: the player is at two locations",
    );
    check(
        "(receptacleAtLocation Shelf_bar_1 loc_bar_1)",
        "(receptacleAtLocation Shelf_bar_1 loc_bar_1) (receptacleAtLocation Shelf_bar_1 loc_bar_2)",
        "the problem: the receptacle `shelf_bar_1` is at two locations",
    );
    check("agent1 - agent", "agent1 - agent b - agent", "the problem: there are 2 agents; expected one");
    check(
        "(inReceptacle Apple_bar_1 Shelf_bar_1)",
        "(inReceptacle Shelf_bar_1 Apple_bar_1)",
        "the problem: `inReceptacle` is said of `shelf_bar_1`, which is no object",
    );
    check(
        "(pickupable Apple_bar_1)",
        "(holds agent1 Apple_bar_1)",
        "the problem: `holds` and `holdsAny` do not agree",
    );
    check(
        "(holds agent1 ?o)",
        "(checked ?o)",
        "the problem: the goal asks for `checked`, which is not followed",
    );
}

#[track_caller]
fn check_unsolvable(good: &str, bad: &str, expect: &str) {
    let problem = ROOM.replace(good, bad);
    let game = Game::from_problem(Rules::CURRENT, "hold an apple.", &problem);
    match game.and_then(|game| game.plan()) {
        Ok(plan) => panic!("{bad} is solved: {plan:?}"),
        Err(error) => assert_eq!(error.to_string(), expect),
    }
}

#[test]
fn an_unsolvable_game_says_what_stands_in_the_way() {
    check_unsolvable(
        "(objectType ?o AppleType)",
        "(objectType ?o ShelfType)",
        "no plan reaches the goal: what it asks for is not in the room",
    );
    check_unsolvable("(pickupable Apple_bar_1)", "", "no plan reaches the goal: apple 1 cannot be picked up");
    check_unsolvable(
        "(receptacleAtLocation Shelf_bar_1 loc_bar_1)",
        "",
        "no plan reaches the goal: apple 1 is in no receptacle that can be reached",
    );
    check_unsolvable(
        "(holds agent1 ?o)",
        "(holds agent1 ?o) (isClean ?o)",
        "no plan reaches the goal: apple 1 cannot be cleaned in this room",
    );
}

#[track_caller]
fn check_file(json: &str, expect: &str) {
    let file: GameFile<'_> = match serde_json::from_str(json) {
        Ok(file) => file,
        Err(error) => panic!("{error}"),
    };
    match file.game() {
        Ok(_) => panic!("{json} is taken"),
        Err(error) => assert_eq!(error.to_string(), expect),
    }
}

#[test]
fn other_rules_are_refused() {
    let grammar = r#""grammar": "grammar :: \"Your task is to: x.\"""#;
    check_file(
        &format!(r#"{{"pddl_problem": "", {grammar}}}"#),
        "`grammar` is none that is known (its normal form has the hash ca4ada7f76722514; known are ab7832e463c5eea8 of \
         alfworld 0.2 and 0.3 and 56608cb77f438c90 of alfworld 0.4), so what it would say is not known either",
    );
    check_file(r#"{"pddl_problem": ""}"#, "`grammar` is missing, so it is not known how the game speaks");
    check_file(
        &format!(r#"{{"pddl_problem": "", "rules": "alfworld-0.4", {grammar}}}"#),
        "`grammar` and `rules` exclude each other",
    );
    check_file(r#"{"pddl_problem": "", "rules": "alfworld-0.4"}"#, "`task` is missing beside `rules`");
}

#[test]
fn another_domain_is_refused_beside_a_known_grammar() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/alfworld/sliced-hot-apple.json");
    let text = std::fs::read_to_string(data).unwrap_or_default();
    let transcript: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let grammar = transcript["game"]["grammar"].as_str().unwrap_or_default();
    assert_eq!(Rules::recognise(None, grammar), Ok(Rules::CURRENT));
    match Rules::recognise(Some("(define (domain alfred))"), grammar) {
        Ok(_) => panic!("another domain is taken"),
        Err(error) => assert_eq!(
            error.to_string(),
            "`pddl_domain` is none that is known (its normal form has the hash bba0e16b4b866a0c; known are \
             b0b8259a4e11c9f4 of alfworld 0.2 and 0.3 and 915e118f4f32b4d8 of alfworld 0.4), so its actions are not \
             known either"
        ),
    }
}
