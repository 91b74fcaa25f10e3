//! The log of a bank: what it allows, and that it adds up to the same bank again.

use proptest::prelude::*;
use serde_json::Value;
use skill_bank::{
    Author, Bank, BankError, BankEvent, Basis, Content, Evidence, Occasion, Reason, SkillProvenance,
    SkillRef, State, Tier, TrialVerdict, Utility,
};
use skill_core::{ItemId, SkillPartId, Usage};

pub(crate) fn principle(title: &str) -> Content {
    Content::principle(title, format!("Do {title}."), "")
}

fn propose(bank: &mut Bank, skill: SkillRef, tier: &Tier, title: &str) -> Result<SkillRef, BankError> {
    let (content, evidence) = (principle(title), Evidence::default());
    let proposed =
        BankEvent::proposed(skill.clone(), tier.clone(), content, SkillProvenance::Distilled, evidence);
    bank.record(0, Author::Process, proposed)?;
    Ok(skill)
}

fn new_skill(bank: &mut Bank, tier: &Tier, title: &str) -> SkillRef {
    let skill = bank.next_skill(tier);
    propose(bank, skill, tier, title).unwrap()
}

fn admit(bank: &mut Bank, skill: &SkillRef) {
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Unmeasured };
    bank.record(0, Author::Process, admitted).unwrap();
}

fn retire(bank: &mut Bank, skill: &SkillRef, by: Author) -> Result<(), BankError> {
    bank.record(1, by, BankEvent::Retired { skill: skill.clone(), reason: Reason::Harmful }).map(|_| ())
}

#[test]
fn an_id_is_never_used_again() {
    let mut bank = Bank::new();
    let heat = Tier::of_type("heat");
    let first = new_skill(&mut bank, &heat, "one");
    admit(&mut bank, &first);
    let second = new_skill(&mut bank, &heat, "two");
    retire(&mut bank, &second, Author::Process).unwrap();
    assert_eq!(bank.next_skill(&heat).to_string(), "hea_003");
    assert!(matches!(propose(&mut bank, second, &heat, "three"), Err(BankError::IdTaken { .. })));
    // Two types with the same first letters count together.
    let taken: Vec<String> = ["pick_and_place", "pick_two"]
        .map(|task_type| new_skill(&mut bank, &Tier::of_type(task_type), "x").to_string())
        .into();
    assert_eq!(taken, ["pic_001", "pic_002"]);
}

#[test]
fn a_trial_admits_only_what_was_in_one() {
    let mut bank = Bank::new();
    let skill = new_skill(&mut bank, &Tier::General, "one");
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Trial };
    let error = bank.record(1, Author::Process, admitted.clone()).unwrap_err();
    assert!(matches!(error, BankError::WrongState { state: State::Candidate, .. }));
    assert_eq!(bank.log().len(), 1, "nothing is recorded of what was refused");
    let opened =
        BankEvent::TrialOpened { skill: skill.clone(), max_rollouts: 64, design_sha256: String::new() };
    bank.record(1, Author::Process, opened).unwrap();
    bank.record(1, Author::Process, admitted).unwrap();
    assert_eq!(bank.view().skills().len(), 1);
}

#[test]
fn an_undecided_candidate_stays_one() {
    let mut bank = Bank::new();
    let skill = new_skill(&mut bank, &Tier::General, "one");
    let opened =
        BankEvent::TrialOpened { skill: skill.clone(), max_rollouts: 64, design_sha256: String::new() };
    bank.record(1, Author::Process, opened).unwrap();
    let measured = BankEvent::Measured {
        skill: skill.clone(),
        occasion: Occasion::Trial,
        utility: None,
        verdict: Some(TrialVerdict::Undecided),
        e_better: Some(1.0),
        e_worse: Some(1.0),
        p_better: None,
    };
    bank.record(1, Author::Process, measured).unwrap();
    assert_eq!(bank.version(&skill).unwrap().state, State::Candidate);
}

#[test]
fn no_process_changes_what_a_person_pinned() {
    let mut bank = Bank::new();
    let skill = new_skill(&mut bank, &Tier::General, "one");
    admit(&mut bank, &skill);
    bank.record(0, Author::Person, BankEvent::Pinned { skill: skill.skill.clone() }).unwrap();
    assert!(matches!(retire(&mut bank, &skill, Author::Process), Err(BankError::Pinned { .. })));
    let next = bank.next_version(&skill.skill).unwrap();
    propose(&mut bank, next.clone(), &Tier::General, "one, better").unwrap();
    let revised = BankEvent::Revised { skill: next.clone(), from: 1, basis: Basis::Unmeasured };
    assert!(matches!(bank.record(1, Author::Process, revised), Err(BankError::Pinned { .. })));
    for reason in Reason::ALL {
        let retired = BankEvent::Retired { skill: skill.clone(), reason };
        let outcome = bank.record(1, Author::Process, retired);
        assert!(matches!(outcome, Err(BankError::Pinned { .. })), "{reason:?}");
    }
    // A trial may still reject a candidate beside the pinned version.
    let retired = BankEvent::Retired { skill: next, reason: Reason::Trial };
    bank.record(1, Author::Process, retired).unwrap();
    retire(&mut bank, &skill, Author::Person).unwrap();
}

#[test]
fn a_revision_takes_the_place_of_its_skill_and_a_retired_version_comes_back_under_its_id() {
    let mut bank = Bank::new();
    let first = new_skill(&mut bank, &Tier::General, "one");
    let other = new_skill(&mut bank, &Tier::General, "other");
    admit(&mut bank, &first);
    admit(&mut bank, &other);
    let next = bank.next_version(&first.skill).unwrap();
    propose(&mut bank, next.clone(), &Tier::General, "one, better").unwrap();
    assert_eq!(bank.replaced_by(&next), std::slice::from_ref(&first));
    let tried = bank.view().with(bank.viewed(&next).unwrap(), &bank.replaced_by(&next));
    let shown: Vec<String> = tried.skills().iter().map(|skill| skill.id.to_string()).collect();
    assert_eq!(shown, ["gen_001@2", "gen_002"]);
    let revised = BankEvent::Revised { skill: next.clone(), from: 1, basis: Basis::Unmeasured };
    bank.record(1, Author::Process, revised).unwrap();
    assert_eq!(bank.view().skills()[0].id, next);
    bank.record(2, Author::Person, BankEvent::Restored { skill: first.clone() }).unwrap();
    assert_eq!(bank.view().skills()[0].id, first);
    assert_eq!(bank.version(&next).unwrap().state, State::Retired);
}

#[test]
fn a_merger_retires_those_that_it_was_made_from() {
    let mut bank = Bank::new();
    let parents: Vec<SkillRef> =
        ["one", "two"].iter().map(|title| new_skill(&mut bank, &Tier::General, title)).collect();
    parents.iter().for_each(|skill| admit(&mut bank, skill));
    let merged = new_skill(&mut bank, &Tier::General, "both");
    let from = parents.iter().map(|parent| parent.skill.clone()).collect();
    let event = BankEvent::Merged { skill: merged.clone(), from, basis: Basis::Unmeasured };
    bank.record(1, Author::Process, event).unwrap();
    let view = bank.view();
    assert_eq!(view.skills().iter().map(|skill| &skill.id).collect::<Vec<_>>(), [&merged]);
    assert!(parents.iter().all(|parent| bank.version(parent).unwrap().state == State::Retired));
}

#[test]
fn a_log_that_does_not_add_up_is_refused_with_its_line() {
    let mut bank = Bank::new();
    let skill = new_skill(&mut bank, &Tier::General, "one");
    admit(&mut bank, &skill);
    let text = bank.log_text();
    let lines: Vec<&str> = text.lines().collect();
    for (log, line) in [
        (String::new(), 1),
        ("{\"format\":\"other\",\"version\":1}\n".to_owned(), 1),
        ([lines[0], lines[2]].join("\n"), 2),
        ([lines[0], lines[1], lines[1]].join("\n"), 3),
        (format!("{}\n{}\n{{\"n\":2", lines[0], lines[1]), 3),
    ] {
        assert!(
            matches!(Bank::from_log(&log), Err(BankError::BadLog { line: at, .. }) if at == line),
            "{log}: {:?}",
            Bank::from_log(&log)
        );
    }
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    assert!(matches!(Bank::from_log(&newer), Err(BankError::NewerVersion { version: 2, .. })));
}

/// A log with every kind of event.
fn whole_log() -> String {
    let mut bank = Bank::new();
    let imported = BankEvent::Imported { format: "skillrl".into(), sha256: "0".into() };
    bank.record(0, Author::Process, imported).unwrap();
    let mut evidence = Evidence::default();
    evidence.items = vec![ItemId::new("task-1")];
    evidence.calls = 1;
    evidence.usage = Usage { input: 3, output: 1, ..Usage::default() };
    let content =
        Content::Mistake { description: "d".into(), why_it_happens: "w".into(), how_to_avoid: String::new() };
    let mistake = bank.next_skill(&Tier::Mistakes);
    let proposed =
        BankEvent::proposed(mistake.clone(), Tier::Mistakes, content, SkillProvenance::Distilled, evidence);
    bank.record(0, Author::Process, proposed).unwrap();
    let skill = new_skill(&mut bank, &Tier::General, "one");
    let opened = BankEvent::TrialOpened { skill: skill.clone(), max_rollouts: 64, design_sha256: "0".into() };
    let utility = Utility {
        difference: 0.25,
        interval: [0.1, 0.4],
        with: [3, 4],
        without: [2, 4],
        informative_groups: 1,
    };
    let measured = BankEvent::Measured {
        skill: skill.clone(),
        occasion: Occasion::Trial,
        utility: Some(utility),
        verdict: Some(TrialVerdict::Admit),
        e_better: Some(20.5),
        e_worse: Some(0.125),
        p_better: None,
    };
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Trial };
    for event in [opened, measured, admitted] {
        bank.record(1, Author::Process, event).unwrap();
    }
    let next = bank.next_version(&skill.skill).unwrap();
    propose(&mut bank, next.clone(), &Tier::General, "one, better").unwrap();
    let merged = new_skill(&mut bank, &Tier::General, "both");
    let id = skill.skill.clone();
    for event in [
        BankEvent::Revised { skill: next.clone(), from: 1, basis: Basis::Unmeasured },
        BankEvent::Pinned { skill: id.clone() },
        BankEvent::Unpinned { skill: id.clone() },
        BankEvent::Merged { skill: merged, from: vec![id], basis: Basis::Person },
        BankEvent::Restored { skill: next.clone() },
        BankEvent::Retired { skill: next, reason: Reason::Person },
    ] {
        bank.record(2, Author::Person, event).unwrap();
    }
    bank.log_text()
}

#[test]
fn a_log_is_read_strictly_and_keeps_its_bytes() {
    let text = whole_log();
    insta::assert_snapshot!(text);
    assert_eq!(Bank::from_log(&text).unwrap().log_text(), text);
    let lines: Vec<&str> = text.lines().collect();
    let refused = |line_idx: usize, changed: &Value| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        lines[line_idx] = changed.to_string();
        match Bank::from_log(&lines.join("\n")) {
            Err(BankError::BadLog { line, message }) if line == line_idx as u64 + 1 => message,
            other => panic!("{changed}: {other:?}"),
        }
    };
    let mut n_objects = 0;
    for (line_idx, line) in lines.iter().enumerate() {
        let value: Value = serde_json::from_str(line).unwrap();
        // An unknown field in each of the line's objects.
        let inner: Vec<Vec<&str>> =
            vec![vec![], vec!["content"], vec!["evidence"], vec!["evidence", "usage"], vec!["utility"]];
        for path in inner {
            let mut changed = value.clone();
            let found = path.iter().try_fold(&mut changed, |value, key| value.get_mut(*key));
            let Some(object) = found.and_then(Value::as_object_mut) else { continue };
            object.insert("uknown".to_owned(), Value::from(1));
            let message = refused(line_idx, &changed);
            assert!(message.contains("`uknown`"), "{message}");
            n_objects += 1;
        }
    }
    assert!(n_objects > lines.len() + 7, "{n_objects}");
    for (line_idx, from, to, named) in [
        (1, "\"imported\"", "\"importet\"", "`importet`"),
        (2, "\"mistakes\"", "\"general_\"", "`general_`"),
        (2, "\"parents\"", "\"parens\"", "`parens`"),
        (2, "\"why_it_happens\"", "\"title\"", "`title`"),
        (3, "\"process\"", "\"nobody\"", "`by`"),
        (4, "\"max_rollouts\"", "\"most_rollouts\"", "`most_rollouts`"),
        (4, "\"n\"", "\"m\"", "`n`"),
    ] {
        let changed = lines[line_idx].replacen(from, to, 1);
        let changed = match from {
            // A field that is left out where it is empty.
            "\"parents\"" => changed.replacen("\"evidence\"", "\"parens\":[],\"evidence\"", 1),
            _ => changed,
        };
        assert_ne!(changed, lines[line_idx], "{from}");
        let message = refused(line_idx, &serde_json::from_str(&changed).unwrap());
        assert!(message.contains(named), "{message}");
    }
}

#[test]
fn a_chained_log_shows_every_change_but_the_loss_of_its_end() {
    let bank = Bank::from_log(&whole_log()).unwrap();
    let (text, chain) = bank.chained_log_text();
    let read = Bank::read_log(&text).unwrap();
    assert_eq!((&read.bank, &read.chain, read.n_unchained), (&bank, &chain, 0));
    for at in 0..text.len() - 1 {
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        if let Ok(changed) = String::from_utf8(changed) {
            assert!(Bank::from_log(&changed).is_err(), "byte {at}: {}", text.split_at(at).1);
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    for at in 1..lines.len() - 1 {
        let mut fewer = lines.clone();
        fewer.remove(at);
        assert!(Bank::from_log(&fewer.join("\n")).is_err(), "without line {at}");
    }
}

#[test]
fn a_log_without_hashes_is_read_and_chained_from_its_next_event() {
    let text = whole_log();
    let mut read = Bank::read_log(&text).unwrap();
    assert_eq!(read.n_unchained, read.bank.log().len());
    let skill = read.bank.next_skill(&Tier::General);
    propose(&mut read.bank, skill, &Tier::General, "later").unwrap();
    let line = read.chain.line(read.bank.log().last().unwrap());
    let text = text + &line;
    let again = Bank::read_log(&text).unwrap();
    assert_eq!((&again.bank, &again.chain, again.n_unchained), (&read.bank, &read.chain, 0));
    let changed = text.replacen("\"n\":1,", "\"n\":1, ", 1);
    assert!(matches!(Bank::from_log(&changed), Err(BankError::BadLog { .. })), "of an old line");
    let unchained = text.clone() + &line.replacen(",\"chain\"", "}", 1);
    assert!(Bank::from_log(&unchained).is_err(), "a line without its hash behind one that has it");
}

#[test]
fn a_part_id_names_its_version() {
    for (id, version) in [("gen_001", 1), ("gen_001", 2), ("a@b", 1), ("a@b", 7)] {
        let skill = SkillRef::new(SkillPartId::new(id), version);
        assert_eq!(SkillRef::of_part(&skill.part_id()), skill);
    }
}

/// Something to do with a bank, by the number of a skill that is there.
fn attempts() -> impl Strategy<Value = Vec<(u8, usize, bool)>> {
    proptest::collection::vec((0..9_u8, 0..6_usize, any::<bool>()), 0..60)
}

proptest! {
    #[test]
    fn the_log_adds_up_to_the_same_bank(attempts in attempts()) {
        let mut bank = Bank::new();
        let mut ids = Vec::new();
        for (what, at, is_person) in attempts {
            let by = if is_person { Author::Person } else { Author::Process };
            let tier = if at % 2 == 0 { Tier::General } else { Tier::of_type("heat") };
            let chosen = bank.skills().nth(at).and_then(|skill| {
                Some(SkillRef::new(skill.id.clone(), skill.latest()?.number))
            });
            let before = bank.clone();
            let outcome = match (what, chosen) {
                (0..=2, _) | (_, None) => {
                    let skill = bank.next_skill(&tier);
                    prop_assert!(!ids.contains(&skill), "{skill} is used again");
                    ids.push(skill.clone());
                    propose(&mut bank, skill, &tier, "x").map(|_| ())
                }
                (what, Some(skill)) => {
                    let event = match what {
                        3 => BankEvent::Admitted { skill, basis: Basis::Unmeasured },
                        4 => BankEvent::Retired { skill, reason: Reason::Harmful },
                        5 => BankEvent::Restored { skill },
                        6 => BankEvent::Pinned { skill: skill.skill },
                        7 => BankEvent::TrialOpened { skill, max_rollouts: 8, design_sha256: "0".into() },
                        _ => BankEvent::Revised { from: 1, skill, basis: Basis::Trial },
                    };
                    bank.record(1, by, event).map(|_| ())
                }
            };
            if outcome.is_err() {
                prop_assert_eq!(&bank, &before, "what is refused changes nothing");
            }
            for skill in bank.skills() {
                let n_active = skill.versions.iter().filter(|version| version.state == State::Active).count();
                prop_assert!(n_active <= 1);
            }
        }
        prop_assert_eq!(Bank::from_log(&bank.log_text()).unwrap(), bank);
    }
}
