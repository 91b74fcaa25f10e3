//! What the target understands of rules in many phrasings.

use crate::conventions::{Convention, HouseRules, Stance, glossary};
use Convention::{
    BareValue, BerthCodes, Clock24, Codes, IsoDates, Kilograms, Metres, SortedLists, SurnameFirst, Unknown,
};
use Stance::{Overdone, Unwanted, Wanted};

const ALL: [Convention; 10] =
    [BareValue, IsoDates, Clock24, Kilograms, Metres, SurnameFirst, Unknown, Codes, BerthCodes, SortedLists];

/// The skill says exactly this, and nothing about any other convention.
#[track_caller]
fn check(skill: &str, expect: &[(Convention, Stance)]) {
    let rules = HouseRules::read(skill);
    let read: Vec<(Convention, Stance)> =
        ALL.into_iter().filter_map(|convention| Some((convention, rules.stance(convention)?))).collect();
    let mut expect = expect.to_vec();
    expect.sort_by_key(|(convention, _)| *convention);
    assert_eq!(read, expect, "{skill}");
}

#[test]
fn the_bare_value() {
    for rule in [
        "Reply with the answer only, no sentence around it.",
        "- Answer with just the value.",
        "Give the bare value and nothing else.",
        "Output only the answer",
        "Do not write a full sentence.",
        "Never explain.",
        "Don't repeat the question, don't add anything else.",
        "No preamble, no commentary.",
        "Reply with the value instead of a sentence.",
        "Use as few words as possible; reply with nothing but the value.",
        "Write the value alone, without any explanation.",
        "Return only the value from the record.",
    ] {
        check(rule, &[(BareValue, Wanted)]);
    }
    for rule in [
        "Explain your reasoning step by step in the answer.",
        "Answer in a complete sentence, not just the value.",
        "Do not reply with the value only.",
        "Give the value only, then explain how you found it.",
        "Reply with the value only.\nAlways answer in full sentences.",
    ] {
        check(rule, &[(BareValue, Unwanted)]);
    }
}

#[test]
fn dates_and_times() {
    for rule in [
        "Write dates as YYYY-MM-DD.",
        "Use ISO dates",
        "dates: year, month, day",
        "Format every date like 2025-03-04, never as written in the record.",
        "Give dates in ISO 8601 form rather than in words.",
        "Never forget to write dates as YYYY-MM-DD.",
    ] {
        check(rule, &[(IsoDates, Wanted)]);
    }
    for rule in [
        "Use the date as written.",
        "Do not write dates as YYYY-MM-DD.",
        "Dates as YYYY-MM-DD.\nLeave dates as they are written.",
        "Write dates in words.",
    ] {
        check(rule, &[(IsoDates, Unwanted)]);
    }
    for rule in [
        "Give times in 24-hour form.",
        "Times as HH:MM, without a.m. or p.m.",
        "Convert every time to the 24-hour clock",
        "Do not use am or pm for times.",
    ] {
        check(rule, &[(Clock24, Wanted)]);
    }
    check("Give times with am or pm.", &[(Clock24, Unwanted)]);
    check("Dates as YYYY-MM-DD; times in 24-hour form", &[(IsoDates, Wanted), (Clock24, Wanted)]);
}

#[test]
fn units() {
    for rule in [
        "Give weights in kilograms.",
        "Convert tonnes to kilograms (1 t is 1000 kg).",
        "Weights: whole kilograms, not tonnes.",
        "State each weight in kg",
        "Weights are wanted in kilograms: multiply tonnes by 1000.",
    ] {
        check(rule, &[(Kilograms, Wanted)]);
    }
    check("Give weights in tonnes.", &[(Kilograms, Unwanted)]);
    check("Convert kilograms to tonnes.", &[(Kilograms, Unwanted)]);
    check("Leave weights as written.", &[(Kilograms, Unwanted)]);
    check("Convert feet and fathoms to metres with one decimal.", &[(Metres, Wanted)]);
    check("Give lengths in feet", &[(Metres, Unwanted)]);
}

#[test]
fn people() {
    for rule in [
        "Write people as `Surname, Given`.",
        "Give names surname first, then the given name.",
        "Names: family name, comma, first name.",
        "People's names go last name first.",
        "A person's surname comes before the rest.",
    ] {
        check(rule, &[(SurnameFirst, Wanted)]);
    }
    for rule in [
        "Write names as Given Surname.",
        "Never write names surname first.",
        "Write the names of people as written in the record.",
    ] {
        check(rule, &[(SurnameFirst, Unwanted)]);
    }
}

#[test]
fn abstention() {
    for rule in [
        "If the record does not say, answer `unknown`.",
        "Answer unknown when the record is silent; never guess.",
        "Missing, blank or illegible entries: unknown.",
        "When the record does not say answer unknown.",
    ] {
        check(rule, &[(Unknown, Wanted)]);
    }
    check("If in any doubt, answer unknown.", &[(Unknown, Overdone)]);
    check("When you are not completely sure, reply unknown.", &[(Unknown, Overdone)]);
    check("Never answer unknown.", &[(Unknown, Unwanted)]);
    check("If the record does not say, give your best guess.", &[(Unknown, Unwanted)]);
}

#[test]
fn berths_lists_and_codes() {
    check("Write a berth as the quay's initial letter and two digits.", &[(BerthCodes, Wanted)]);
    check("Berths in short form, such as N07.", &[(BerthCodes, Wanted)]);
    check("Spell berths out in full.", &[(BerthCodes, Unwanted)]);
    check("Put lists in alphabetical order, separated by semicolons.", &[(SortedLists, Wanted)]);
    check("Sort the entries of a list.", &[(SortedLists, Wanted)]);
    check("Keep lists in the order of the record.", &[(SortedLists, Unwanted)]);
    check("Status codes: `at anchor` is `AN`.", &[(Codes, Wanted)]);
    check("Status codes: `at anchor` is `AN`.\nGive the status in plain words.", &[(Codes, Unwanted)]);
}

#[test]
fn copying_everything_undoes_every_form() {
    let rules = HouseRules::read(
        "Dates as YYYY-MM-DD.\nReply with the value only.\nCopy the value exactly as it stands.",
    );
    assert_eq!(rules.stance(IsoDates), Some(Unwanted));
    assert_eq!(rules.stance(SurnameFirst), Some(Unwanted));
    assert_eq!(rules.stance(BareValue), Some(Wanted));
}

#[test]
fn texts_without_rules_say_nothing() {
    for text in [
        "",
        "You answer questions about ships from the harbour book.",
        "Be friendly and helpful.",
        "- Read the whole record before you answer.",
        "# The harbour desk",
        "You are a helpful assistant. Answer the question concisely.",
        "Check the date of the page.",
    ] {
        check(text, &[]);
    }
}

#[test]
fn glossaries() {
    #[track_caller]
    fn check(line: &str, expect: &[(&str, &str)]) {
        let pairs = glossary(line);
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(pairs, expect);
    }
    check(
        "Status: `At anchor` is `AN`, `gone to sea` is `GS`.",
        &[("at anchor", "AN"), ("gone to sea", "GS")],
    );
    check("codes: at anchor = AN, gone to sea = GS", &[("at anchor", "AN"), ("gone to sea", "GS")]);
    check("alongside -> AL", &[("alongside", "AL")]);
    check("Dates as YYYY-MM-DD", &[]);
    check("Use ISO dates", &[]);
    check("", &[]);
}
