//! What optimizer and players have to agree on: every rule is understood, and as nothing else.

use crate::conventions::statements;
use crate::habits::{Conduct, habits_of_line};
use crate::played::{Lessons, Played};
use crate::shop::ShopHabit;
use skill_envs::alfworld::HouseholdHabit;
use std::fmt::Debug;

fn check_rules<L: Lessons + Debug>() {
    for habit in L::ALL {
        for rule in habit.phrasings() {
            let line = format!("- {rule}");
            let read = habits_of_line::<L>(&line);
            assert!(!read.is_empty() && read.iter().all(|said| *said == (*habit, true)), "{rule}: {read:?}");
            assert!(statements(&line).is_empty(), "{rule}");
        }
    }
    for rule in L::HARMFUL {
        let line = format!("- {rule}");
        let read = habits_of_line::<L>(&line);
        assert!(!read.is_empty() && read.iter().all(|(_, is_wanted)| !is_wanted), "{rule}: {read:?}");
        assert!(statements(&line).is_empty(), "{rule}");
    }
    for turn in 0..3 {
        let rules: Vec<&str> =
            L::ALL.iter().filter_map(|habit| habit.phrasings().iter().copied().cycle().nth(turn)).collect();
        let conduct = Conduct::<L>::read(&rules.join("\n"));
        for habit in L::ALL {
            assert_eq!(conduct.says(*habit), Some(true), "{habit:?} in {rules:#?}");
        }
    }
}

#[test]
fn every_rule_is_understood() {
    check_rules::<HouseholdHabit>();
    check_rules::<ShopHabit>();
}

#[track_caller]
fn check<L: Lessons + Debug>(opening: &str, turns: &[(&str, &str)], expect: &[L]) {
    let mut conversation = format!("[system] You act.\n[user] {opening}\n");
    for (action, seen) in turns {
        conversation
            .push_str(&format!("[assistant] <think>Hm.</think>\n<action>{action}</action>\n[user] {seen}\n"));
    }
    let played = Played::read(&conversation);
    assert_eq!(played.steps.len(), turns.len());
    assert!(L::is_in(&played));
    assert_eq!(L::diagnose(&played), expect);
}

#[test]
fn what_went_wrong_in_a_household() {
    use HouseholdHabit as H;
    let opening = |task: &str| {
        format!(
            "You are in the middle of a room. Looking quickly around you, you see a drawer 1, a fridge 1, and a table \
             1.\n\nYour task is to: {task}"
        )
    };
    let closed = ("go to drawer 1", "You arrive at drawer 1. The drawer 1 is closed.");
    let take = ("take mug 1 from table 1", "You pick up the mug 1 from the table 1.");
    let put = ("move mug 1 to table 1", "You move the mug 1 to the table 1.");
    let table = ("go to table 1", "You arrive at table 1. On the table 1, you see a mug 1.");
    check(&opening("put a mug in table."), &[closed], &[H::OpenClosed, H::SearchEverywhere]);
    check(&opening("put a mug in table."), &[table], &[H::SearchEverywhere]);
    check(&opening("put a hot mug in table."), &[table, take, put], &[H::Heat]);
    check(&opening("put a clean mug in table."), &[table, take, put], &[H::Clean]);
    check(&opening("cool some mug and put it in table."), &[table, take, put], &[H::Cool]);
    check(&opening("put two mug in table."), &[table, take, put, ("look", "")], &[H::FetchBoth]);
    let lamp = ("go to table 1", "On the table 1, you see a desklamp 1, and a mug 1.");
    check(&opening("look at mug under the desklamp."), &[lamp, take, ("look", "")], &[H::UseLamp]);
    check::<H>(&opening("put a mug in table."), &[table, take], &[]);
}

#[test]
fn what_went_wrong_in_a_shop() {
    use ShopHabit as S;
    let wish = "Instruction: [SEP] find me a steel mug, color red, and price lower than 20.00 dollars [SEP]";
    let opening = format!("WebShop [SEP] {wish} Search");
    let listed = format!(
        "{wish} Back to Search [SEP] Page 1 (Total results: 2) [SEP] Next > [SEP] B0AA [SEP] Mug [SEP] $9.00 [SEP] B0BB \
         [SEP] Steel Mug [SEP] $29.00"
    );
    let item = |title: &str, price: &str| {
        format!(
            "{wish} Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] {title} [SEP] Price: {price} [SEP] \
             Rating: N.A. [SEP] Features [SEP] Buy Now"
        )
    };
    let (mug, steel) = (item("Mug", "$9.00"), item("Steel Mug", "$29.00"));
    let more = format!("{wish} Back to Search [SEP] < Prev [SEP] Made of tin.");
    let good = ("search[steel mug color red]", listed.as_str());
    let buy = ("click[buy now]", "Thank you for shopping with us! [SEP] x");
    let vague = ("search[mug]", listed.as_str());
    let aa = ("click[b0aa]", mug.as_str());
    let red = ("click[red]", mug.as_str());
    let read = ("click[features]", more.as_str());
    check(
        &opening,
        &[vague, aa, buy],
        &[S::SearchKeyWords, S::ChooseOptions, S::CompareNames, S::ReadFeatures],
    );
    check(&opening, &[good, aa, read, red, buy], &[S::CompareNames, S::TryOthers]);
    let bb = ("click[b0bb]", steel.as_str());
    check(&opening, &[good, bb, read, ("click[red]", &steel), buy], &[S::CheckPrice]);
    check(&opening, &[("search[i need a steel mug]", &listed)], &[S::SearchKeyWords]);
}
