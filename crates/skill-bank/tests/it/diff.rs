//! What is different between two banks.

use skill_bank::format::read;
use skill_bank::{
    Author, Bank, BankDiff, BankEvent, Basis, Content, Evidence, Reason, SkillProvenance, SkillRef, State,
    Tier,
};
use skill_core::SkillPartId;

const BANK: &str = r#"{"general_skills": [
    {"skill_id": "gen_001", "title": "Look", "principle": "Look first."},
    {"skill_id": "gen_002", "title": "Ask", "principle": "Ask once."},
    {"skill_id": "gen_003", "title": "Wait", "principle": "Wait a moment."}
]}"#;

fn part(id: &str) -> SkillPartId {
    SkillPartId::new(id)
}

fn record(bank: &mut Bank, event: BankEvent) {
    bank.record(1, Author::Person, event).unwrap();
}

fn proposed(skill: &SkillRef, principle: &str) -> BankEvent {
    let content = Content::principle("Ask", principle, "");
    BankEvent::proposed(skill.clone(), Tier::General, content, SkillProvenance::Person, Evidence::default())
}

#[test]
fn a_bank_is_not_different_from_itself() {
    let bank = read(BANK).unwrap().bank;
    assert!(BankDiff::between(&bank, &bank).is_empty());
}

#[test]
fn skills_are_added_removed_and_changed() {
    let before = read(BANK).unwrap().bank;
    let mut after = before.clone();
    let revision = after.next_version(&part("gen_002")).unwrap();
    record(&mut after, proposed(&revision, "Ask twice."));
    record(&mut after, BankEvent::Revised { skill: revision, from: 1, basis: Basis::Person });
    record(
        &mut after,
        BankEvent::Retired { skill: SkillRef::new(part("gen_003"), 1), reason: Reason::Person },
    );
    record(&mut after, BankEvent::Pinned { skill: part("gen_001") });
    let new = after.next_skill(&Tier::General);
    record(&mut after, proposed(&new, "Ask nobody."));

    let diff = BankDiff::between(&before, &after);
    assert_eq!((&diff.added[..], &diff.removed[..]), (&[part("gen_004")][..], &[][..]));
    let ids: Vec<&str> = diff.changed.iter().map(|change| change.id.as_str()).collect();
    assert_eq!(ids, ["gen_001", "gen_002", "gen_003"]);
    let [pinned, revised, retired] = &diff.changed[..] else { panic!("{diff:?}") };
    assert!(pinned.pinned.is_some_and(|change| !change.before && change.after));
    assert!(pinned.content.is_none() && pinned.state.is_none() && pinned.version.is_none());
    assert!(revised.version.is_some_and(|change| (change.before, change.after) == (1, 2)));
    assert!(revised.content.is_some() && revised.state.is_none());
    assert!(retired.state.is_some_and(|change| change.after == State::Retired));

    let back = BankDiff::between(&after, &before);
    assert_eq!((&back.added[..], &back.removed[..]), (&[][..], &[part("gen_004")][..]));
    assert_eq!(back.changed.len(), 3);
}
