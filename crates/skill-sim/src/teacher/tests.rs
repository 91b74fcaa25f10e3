//! What one reply holds: bad advice, merged lists, changes.

use super::prompts::ExistingSkill;
use super::*;
use crate::played::{Played, Step};

const WORLDS: [World; 3] = [World::Household, World::Shop, World::Answers];
const OPEN: &str = "When a receptacle is closed, open it and look inside before you go on.";
const LEAVE: &str = "Leave closed doors and drawers closed: opening them costs turns.";

fn pen(seed: u64, flaw_rate: f64) -> Pen {
    Pen { dice: Dice::new(seed, &[]), flaw_rate }
}

fn skill(title: &str, principle: &str) -> SkillText {
    SkillText { fields: [title.to_owned(), principle.to_owned(), String::new()], is_mistake: false }
}

#[test]
fn flawed_advice_is_what_it_is_meant_to_be() {
    for [title, rule] in PLATITUDES.iter().chain(OVER_GENERAL) {
        let text = skill(title, rule).shown();
        for world in WORLDS {
            assert_eq!(world.said_in(&text), BTreeSet::new(), "{world:?}: {text}");
        }
    }
    for title in HARMFUL_TITLES {
        let text = skill(title, "Go.").shown();
        assert!(WORLDS.iter().all(|world| world.said_in(&text).is_empty()), "{title}");
    }
    for (world, is_mistake) in WORLDS.into_iter().flat_map(|world| [(world, false), (world, true)]) {
        for seed in 0..10 {
            let skill =
                pen(seed, 1.0).flawed(Flaw::Harmful, "x", world, is_mistake, &BTreeSet::new()).unwrap();
            let said = said_by(&skill, world);
            assert!(matches!(said, Said::Things(_)) && !said.is_for(), "{skill:?} {said:?}");
        }
    }
}

/// The titles and sources of a merged list.
fn merged(flaw_rate: f64, limit: usize, proposals: &[SkillText]) -> Vec<(String, Vec<u64>)> {
    let reply = pen(1, flaw_rate).merge(limit, proposals);
    let entry = |entry: &Value| {
        let from = entry["from"].as_array().unwrap().iter().map(|number| number.as_u64().unwrap());
        (entry["title"].as_str().unwrap().to_owned(), from.collect())
    };
    reply["skills"].as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn a_merge_unites_what_says_the_same_and_drops_what_most_contradict() {
    let proposals = [
        skill("Heat it first", "Take what must be hot to the microwave and heat it there first."),
        skill("Save turns", LEAVE),
        skill("Open it", OPEN),
        skill("Stay focused", "Think carefully, and keep the goal in mind."),
        skill("Open drawers", "Never leave a closed receptacle before you have opened it."),
        skill("Stay focused", "Think carefully, and keep the goal in mind."),
    ];
    let of = |title: &str, from: &[u64]| (title.to_owned(), from.to_vec());
    let best = [of("Open it", &[3, 5]), of("Stay focused", &[4, 6]), of("Heat it first", &[1])];
    assert_eq!(merged(0.0, 9, &proposals), best);
    assert_eq!(merged(0.0, 1, &proposals), best[..1]);
    assert_eq!(merged(1.0, 9, &proposals).last(), Some(&of("Save turns", &[2])));
    let mistakes = [SkillText { fields: ["D", "W", OPEN].map(str::to_owned), is_mistake: true }];
    assert_eq!(pen(1, 0.0).merge(9, &mistakes)["mistakes"][0]["how_to_avoid"], json!(OPEN));
}

/// An agent stopped before a closed drawer.
fn failure(task_type: &str) -> EpisodeText {
    let opening = "You see a drawer 1.\n\nYour task is to: put a mug in drawer.".to_owned();
    let (action, seen) = ("go to drawer 1".to_owned(), "The drawer 1 is closed.".to_owned());
    EpisodeText {
        task_type: task_type.to_owned(),
        is_success: false,
        played: Played { opening, steps: vec![Step { action, seen }] },
        answered: crate::prompts::Trajectory::default(),
    }
}

fn existing(id: &str, tier: &str, title: &str, principle: &str) -> ExistingSkill {
    ExistingSkill { id: id.to_owned(), tier: tier.to_owned(), is_fixed: false, text: skill(title, principle) }
}

/// The operations that are proposed against the failure, with the ids or types that they name.
fn changes(skills: &[ExistingSkill], seed: u64, limit: usize, weak: &[&str]) -> Vec<String> {
    let weak: Vec<String> = weak.iter().map(|name| (*name).to_owned()).collect();
    let episodes: Vec<EpisodeText> = weak.iter().map(|name| failure(name)).collect();
    let reply = pen(seed, 0.0).changes(&weak, limit, skills, &episodes);
    let change = |change: &Value| {
        let of = ["id", "task_type"].iter().find_map(|key| change[*key].as_str()).unwrap();
        format!("{} {of}", change["op"].as_str().unwrap())
    };
    reply["changes"].as_array().unwrap().iter().map(change).collect()
}

#[test]
fn changes_are_those_that_the_skills_need() {
    let own = |principle: &str| existing("hea_001", "heat", "Doors", principle);
    assert_eq!(changes(&[], 1, 3, &["heat", "cool"]), ["add heat", "add cool"]);
    assert_eq!(changes(&[], 1, 1, &["heat", "cool"]), ["add heat"]);
    assert_eq!(changes(&[own(OPEN)], 1, 3, &["heat"]), Vec::<String>::new());
    assert_eq!(changes(&[own(OPEN)], 1, 3, &["heat", "cool"]), ["add cool"]);
    assert_eq!(
        changes(&[existing("gen_001", "general", "Doors", OPEN)], 1, 3, &["heat"]),
        Vec::<String>::new()
    );
    // A skill that does harm is revised or retired, unless a person has fixed it.
    let seen: BTreeSet<Vec<String>> =
        (0..20).map(|seed| changes(&[own(LEAVE)], seed, 3, &["heat"])).collect();
    let expect = [vec!["retire hea_001".to_owned()], vec!["revise hea_001".to_owned()]];
    assert_eq!(seen, BTreeSet::from(expect));
    let fixed = ExistingSkill { is_fixed: true, ..own(LEAVE) };
    assert_eq!(changes(&[fixed], 1, 3, &["heat"]), ["add heat"]);
    let both = [own(LEAVE), existing("hea_002", "heat", "Drawers", OPEN)];
    assert_eq!(changes(&both, 1, 3, &["heat"]), ["retire hea_001"]);
}

#[test]
fn a_skill_with_some_codes_gets_the_others() {
    let answered = |answer: &str, reference: &str| crate::prompts::Trajectory {
        question: "What is her state?".to_owned(),
        references: vec![reference.to_owned()],
        answer: answer.to_owned(),
        conversation: format!("[user] Context:\nState: {answer}\n"),
    };
    let episode = |answer, reference| EpisodeText {
        answered: answered(answer, reference),
        played: Played::default(),
        ..failure("desk")
    };
    let old =
        existing("des_001", "desk", "States", "Give the state by its house code: `under repair` is `UR`.");
    let reply = pen(1, 0.0).changes(&["desk".to_owned()], 3, &[old], &[episode("at anchor", "AA")]);
    let change = &reply["changes"][0];
    assert_eq!((change["op"].as_str(), change["id"].as_str()), (Some("revise"), Some("des_001")));
    let rule = change["principle"].as_str().unwrap();
    assert!(["UR", "AA"].iter().all(|code| rule.contains(code)), "{rule}");
}
