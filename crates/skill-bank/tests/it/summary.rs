//! A bank in numbers.

use skill_bank::format::read;
use skill_bank::{Author, BankEvent, BankSummary, Occasion, Reason, SkillRef, Tier, Utility};
use skill_core::SkillPartId;

/// Six skills, of which three have a title with the same words.
const BANK: &str = r#"{
  "general_skills": [
    {"skill_id": "gen_001", "title": "Open the drawer first", "principle": "Open it."},
    {"skill_id": "gen_002", "title": "First: open the DRAWERS!", "principle": "Open them all before you look."},
    {"skill_id": "gen_003", "title": "Look around", "principle": "Look."}
  ],
  "task_specific_skills": {
    "heat": [{"skill_id": "hea_001", "title": "open the drawer, first", "principle": "Open."}],
    "cool": [{"skill_id": "coo_001", "title": "Use the fridge", "principle": "Close it again."}]
  },
  "common_mistakes": [{"mistake_id": "err_001", "description": "Looking twice"}]
}"#;

fn part(id: &str) -> SkillPartId {
    SkillPartId::new(id)
}

#[test]
fn a_bank_is_counted_by_tier_and_state() {
    let mut bank = read(BANK).unwrap().bank;
    let utility = Utility {
        difference: 0.2,
        interval: [0.05, 0.35],
        with: [30, 40],
        without: [22, 40],
        informative_groups: 9,
    };
    let measured = BankEvent::Measured {
        skill: SkillRef::new(part("gen_003"), 1),
        occasion: Occasion::Standing,
        utility: Some(utility),
        verdict: None,
        e_better: None,
        e_worse: None,
        p_better: None,
    };
    bank.record(2, Author::Process, measured).unwrap();
    bank.record(2, Author::Person, BankEvent::Pinned { skill: part("coo_001") }).unwrap();
    let retired = BankEvent::Retired { skill: SkillRef::new(part("gen_002"), 1), reason: Reason::Person };
    let before = BankSummary::of(&bank);
    bank.record(3, Author::Person, retired).unwrap();
    let after = BankSummary::of(&bank);

    let tiers: Vec<&Tier> = before.tiers.iter().map(|tier| &tier.tier).collect();
    assert_eq!(tiers, [&Tier::General, &Tier::of_type("cool"), &Tier::of_type("heat"), &Tier::Mistakes]);
    assert_eq!((before.skills, before.measured, before.unmeasured, before.pinned), (6, 1, 5, 1));
    assert_eq!((before.tiers[0].active, before.tiers[0].retired, before.tiers[0].measured), (3, 0, 1));
    assert_eq!(before.near_duplicates, [["gen_001", "gen_002", "hea_001"].map(part)]);
    assert_eq!(before.longest.unwrap().id, part("gen_002"));

    assert_eq!((after.skills, after.measured, after.unmeasured, after.round), (6, 1, 4, 3));
    assert_eq!((after.tiers[0].active, after.tiers[0].retired, after.tiers[0].skills()), (2, 1, 3));
    assert_eq!(after.near_duplicates, [["gen_001", "hea_001"].map(part)], "retired skills do not count");
    assert!(after.tokens_if_all_shown < before.tokens_if_all_shown);
}

#[test]
fn an_empty_bank_has_no_longest_skill() {
    let summary = BankSummary::of(&skill_bank::Bank::new());
    assert_eq!((summary.skills, summary.tokens_if_all_shown, summary.longest), (0, 0, None));
}
