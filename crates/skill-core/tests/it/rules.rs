//! What the rules of a skill are, and what is left without some of them.

use proptest::prelude::*;
use skill_core::carried::CarriedFile;
use skill_core::rules::{skill_rules, without_rules};
use skill_core::{SkillDoc, SkillPackage, protected_regions};

/// The rules, and what is left without those of these numbers, from 1.
#[track_caller]
fn check(text: &str, rules: &[&str], taken: &[usize], left: &str) {
    let skill = SkillDoc::new(text);
    let found = skill_rules(&skill);
    assert_eq!(found.iter().map(|rule| rule.text.as_str()).collect::<Vec<_>>(), rules);
    let without = without_rules(&skill, &found, |rule_idx| taken.contains(&(rule_idx + 1)));
    assert_eq!(without.source_text(), left);
}

#[test]
fn rules_are_items_paragraphs_and_code() {
    check("", &[], &[], "");
    check("# Title\n", &[], &[], "# Title\n");
    check("a\nb\n\nc\n", &["a\nb", "c"], &[1], "c\n");
    check("a\n\nb\n\nc\n", &["a", "b", "c"], &[2], "a\n\nc\n");
    check("a\n\nb\n\nc", &["a", "b", "c"], &[3], "a\n\nb\n");
    check("- a\n- b\n- c\n", &["- a", "- b", "- c"], &[2], "- a\n- c\n");
    check("1. a\n2) b\n10. c\n", &["1. a", "2) b", "10. c"], &[1, 3], "2) b\n");
    check("- a\n  - x\n  more\n\n  still\n- b\n", &["- a\n  - x\n  more\n\n  still", "- b"], &[1], "- b\n");
    check("- a\nlazy\n\nnot\n", &["- a\nlazy", "not"], &[2], "- a\nlazy\n");
    check("- a\n\n- b\n\nc\n", &["- a", "- b", "c"], &[1], "- b\n\nc\n");
    check("Do:\n- a\n", &["Do:", "- a"], &[1], "- a\n");
    check(
        "Run:\n\n```sh\n# no heading\n\n- no item\n```\n\nb\n",
        &["Run:\n\n```sh\n# no heading\n\n- no item\n```", "b"],
        &[1],
        "b\n",
    );
    check("~~~\n```\n~~~\n", &["~~~\n```\n~~~"], &[1], "");
    check("```\nopen\n", &["```\nopen"], &[], "```\nopen\n");
    check("| a | b |\n|---|---|\n| 1 | 2 |\n", &["| a | b |\n|---|---|\n| 1 | 2 |"], &[1], "");
    check("**Bold** text\n*a*\n-b\n", &["**Bold** text\n*a*\n-b"], &[], "**Bold** text\n*a*\n-b\n");
    check("a\n\n---\n\nb\n", &["a", "b"], &[1], "---\n\nb\n");
    check("#tag\n####### seven\n", &["#tag\n####### seven"], &[1], "");
    check("a\r\n\r\nb\r\n", &["a", "b"], &[2], "a\r\n");
}

#[test]
fn a_heading_goes_with_the_last_rule_of_its_section() {
    const TEXT: &str = "# T\n\n## A\n\n- a\n- b\n\n### C\n\n- c\n\n## D\n\n- d\n";
    let rules = ["- a", "- b", "- c", "- d"];
    check(TEXT, &rules, &[1], "# T\n\n## A\n\n- b\n\n### C\n\n- c\n\n## D\n\n- d\n");
    check(TEXT, &rules, &[1, 2], "# T\n\n## A\n\n### C\n\n- c\n\n## D\n\n- d\n");
    check(TEXT, &rules, &[3], "# T\n\n## A\n\n- a\n- b\n\n## D\n\n- d\n");
    check(TEXT, &rules, &[1, 2, 3], "# T\n\n## D\n\n- d\n");
    check(TEXT, &rules, &[1, 2, 3, 4], "# T\n");
    // A heading that had nothing below it is no business of a removal.
    check("# T\n\n## Empty\n\n## A\n\n- a\n", &["- a"], &[1], "# T\n\n## Empty\n");
}

#[test]
fn what_is_protected_is_never_a_rule() {
    let text = "---\nname: x\n---\n# T\n\n- a\n\n<!-- SLOW_UPDATE_START -->\n- kept\n<!-- SLOW_UPDATE_END -->\n\n<!-- APPENDIX_START -->\n- noted\n<!-- APPENDIX_END -->\n";
    let left = text.replace("- a\n\n", "");
    check(text, &["- a"], &[1], &left);
}

#[test]
fn the_files_of_a_package_stay() {
    let mut package = SkillPackage { main: "# Main\n\n- a\n".to_owned(), ..SkillPackage::default() };
    package.references.insert("references/one.md".to_owned(), "# One\n\n- b\n".to_owned());
    package.carry("scripts/run.sh", CarriedFile::new(*b"true\n", true));
    let skill = package.document().unwrap();
    let rules = skill_rules(&skill);
    assert_eq!(rules.iter().map(|rule| rule.text.as_str()).collect::<Vec<_>>(), ["- a", "- b"]);
    let left = without_rules(&skill, &rules, |_| true);
    let left = SkillPackage::of(&left);
    assert_eq!((left.main.trim_end(), left.references["references/one.md"].trim_end()), ("# Main", "# One"));
    assert_eq!(left.carried, package.carried);
}

/// Lines of which every kind of skill can be made.
fn skill_text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "",
        "",
        "- a",
        "- b",
        "  - nested",
        "  deeper",
        "text",
        "# One",
        "## Two",
        "```",
        "1. first",
        "---",
        "| t |",
        "<!-- SLOW_UPDATE_START -->",
        "<!-- SLOW_UPDATE_END -->",
        "\t- tab",
    ]);
    (prop::collection::vec(line, 0..24), any::<bool>())
        .prop_map(|(lines, ends)| lines.join("\n") + if ends { "\n" } else { "" })
}

proptest! {
    #[test]
    fn a_removal_takes_what_it_names_and_nothing_else(text in skill_text(), taken: u64) {
        let skill = SkillDoc::new(text.as_str());
        let rules = skill_rules(&skill);
        let is_taken = |rule_idx: usize| taken >> (rule_idx % 64) & 1 == 1;
        let left = without_rules(&skill, &rules, is_taken);
        // What stays is there in its order, line by line, and nothing else than blank lines and headings is gone.
        let mut rest = left.source_text().lines();
        for (rule_idx, rule) in rules.iter().enumerate().filter(|(rule_idx, _)| !is_taken(*rule_idx)) {
            for line in rule.text.lines().filter(|line| !line.trim().is_empty()) {
                prop_assert!(rest.any(|other| other == line), "rule {rule_idx} of {text:?} is not in {:?}", left.source_text());
            }
        }
        let region_texts = |skill: &SkillDoc| -> Vec<String> {
            protected_regions(skill.source_text()).iter().map(|region| skill.source_text().get(region.range.clone()).unwrap().to_owned()).collect()
        };
        prop_assert_eq!(region_texts(&skill), region_texts(&left));
        if rules.iter().enumerate().all(|(rule_idx, _)| !is_taken(rule_idx)) {
            prop_assert_eq!(left.source_text(), skill.source_text());
        }
        // Rules are in order and apart.
        prop_assert!(rules.windows(2).all(|pair| pair[0].lines.end <= pair[1].lines.start));
    }
}
