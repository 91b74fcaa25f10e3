//! Skill packages: one text and back, edits by file, what each reader sees, front matter.

use crate::all_files::all_files;
use proptest::prelude::*;
use skill_core::carried::CarriedFile;
use skill_core::package::front_matter::{FrontMatter, check_front_matter, name_of, with_field, with_fields};
use skill_core::package::{PackageFault, edit_main, main_file, tree};
use skill_core::{
    Edit, EditOp, EditRules, EditStatus, FrontMatterEdits, SkillDoc, SkillHash, SkillPackage,
    apply_package_patch, apply_patch, estimate_tokens,
};
use std::collections::BTreeMap;

const MAIN: &str = "---\nname: trivia\ndescription: Answers trivia.\n---\n\n# Trivia\n\n- Be brief.\n";

fn package() -> SkillPackage {
    let mut package = SkillPackage {
        main: MAIN.to_owned(),
        references: BTreeMap::from([
            ("references/dates.md".to_owned(), "# Dates\n- Write them as 2024-05-01.".to_owned()),
            ("references/names.md".to_owned(), "# Names\n\n- Write them in full.\n".to_owned()),
        ]),
        ..SkillPackage::default()
    };
    package.carry("scripts/check.py", CarriedFile::new(*b"print(1)\n", true));
    package.carry("LICENSE.txt", CarriedFile::new(*b"MIT", false));
    package
}

fn of(file: &str, edit: Edit) -> Edit {
    Edit { file: Some(file.to_owned()), ..edit }
}

#[test]
fn a_package_is_one_text_and_back() {
    let package = package();
    let skill = package.document().unwrap();
    insta::assert_snapshot!("one_text", skill.source_text());
    assert_eq!(SkillPackage::of(&skill), package);
    // The text alone knows the files that it does not hold.
    let read = SkillPackage::of(&SkillDoc::new(skill.source_text()));
    assert_eq!((&read.carried, read.missing_content()), (&package.carried, Some("LICENSE.txt")));
    assert_eq!(SkillPackage::of(&skill).missing_content(), None);
}

#[test]
fn a_package_of_one_file_is_that_document() {
    for text in ["", "# S\n", "a", "\n\n"] {
        let package = SkillPackage { main: text.to_owned(), ..SkillPackage::default() };
        let skill = package.document().unwrap();
        assert_eq!((skill.source_text(), skill.hash()), (text, SkillHash::of(text)));
        assert_eq!(skill.agent_view().as_str(), text);
        assert!(!package.is_folder());
    }
}

#[test]
fn what_is_carried_decides_the_hash() {
    let hash = |change: fn(&mut SkillPackage)| {
        let mut package = package();
        change(&mut package);
        package.document().unwrap().hash()
    };
    let same = hash(|_| {});
    assert_eq!(hash(|_| {}), same);
    assert_ne!(
        hash(|package| package.carry("scripts/check.py", CarriedFile::new(*b"print(2)\n", true))),
        same
    );
    assert_ne!(
        hash(|package| package.carry("scripts/check.py", CarriedFile::new(*b"print(1)\n", false))),
        same
    );
    assert_ne!(hash(|package| drop(package.references.remove("references/dates.md"))), same);
}

#[test]
fn what_would_be_taken_apart_otherwise_is_refused() {
    let line = "<!-- SKILL_FILE: references/x.md -->";
    for text in [line.to_owned(), format!("a\n{line}\nb"), format!("a\n{line}")] {
        let package = SkillPackage { main: text, ..SkillPackage::default() };
        assert_eq!(package.document(), Err(PackageFault::ReservedLine { path: "SKILL.md".to_owned() }));
    }
    let harmless = SkillPackage { main: format!("see `{line}`"), ..SkillPackage::default() };
    assert!(harmless.document().is_ok());
    let outside = SkillPackage {
        references: BTreeMap::from([("references/../../x.md".to_owned(), String::new())]),
        ..SkillPackage::default()
    };
    assert!(matches!(outside.document(), Err(PackageFault::Path { .. })));
}

#[test]
fn each_edit_goes_to_its_file() {
    let skill = package().document().unwrap();
    let edits = [
        Edit::append("- Think first."),
        of(
            "references/dates.md",
            Edit::new(EditOp::InsertAfter, "2024-05-01", "- Give the year alone if asked."),
        ),
        of("./references/names.md", Edit::new(EditOp::Replace, "in full", "without titles")),
        of("SKILL.md", Edit::new(EditOp::Delete, "- Be brief.\n", "")),
        of("references/other.md", Edit::append("- x")),
        of("scripts/check.py", Edit::append("import os")),
        // The anchor is in another file.
        Edit::new(EditOp::Delete, "# Dates", ""),
        Edit::new(EditOp::Replace, "name: trivia", "name: other"),
        of("references/names.md", Edit::append("x\n<!-- SKILL_FILE: references/evil.md -->\ny")),
    ];
    let (edited, rows) = skill.apply(&edits);
    let statuses: Vec<(usize, EditStatus)> = rows.iter().map(|row| (row.index, row.status)).collect();
    let expect = [
        EditStatus::AppliedAppend,
        EditStatus::AppliedInsertAfter,
        EditStatus::AppliedReplace,
        EditStatus::AppliedDelete,
        EditStatus::SkippedUnknownFile,
        EditStatus::SkippedFileNotEditable,
        EditStatus::SkippedDeleteTargetNotFound,
        EditStatus::SkippedProtectedRegion,
        EditStatus::SkippedProtectedRegion,
    ];
    assert_eq!(statuses, (1..).zip(expect).collect::<Vec<_>>());
    assert_eq!(rows[1].file.as_deref(), Some("references/dates.md"));
    let edited = SkillPackage::of(&edited);
    insta::assert_debug_snapshot!((&edited.main, &edited.references), @r##"
    (
        "---\nname: trivia\ndescription: Answers trivia.\n---\n\n# Trivia\n\n\n- Think first.\n",
        {
            "references/dates.md": "# Dates\n- Write them as 2024-05-01.\n- Give the year alone if asked.\n",
            "references/names.md": "# Names\n\n- Write them without titles.\n",
        },
    )
    "##);
    assert_eq!((edited.carried, edited.contents), (package().carried, package().contents));
}

#[test]
fn a_document_is_edited_as_it_always_was() {
    let skill = SkillDoc::new("# S\n- a\n");
    let edits = [Edit::append("- b"), Edit::new(EditOp::Delete, "- a\n", ""), Edit::append("- c")];
    assert_eq!(
        apply_package_patch(&skill, &edits, &EditRules::default(), FrontMatterEdits::Never),
        apply_patch(&skill, &edits)
    );
    let (edited, rows) = apply_package_patch(
        &skill,
        &[of("references/x.md", Edit::append("- b"))],
        &EditRules::default(),
        FrontMatterEdits::Never,
    );
    assert_eq!((edited, rows[0].status), (skill.clone(), EditStatus::SkippedUnknownFile));
    // No edit makes a folder of a document.
    let (edited, rows) = apply_package_patch(
        &skill,
        &[Edit::append("- b\n<!-- SKILL_FILE: references/x.md -->\n- c"), Edit::append("- d")],
        &EditRules::default(),
        FrontMatterEdits::Never,
    );
    assert_eq!(rows[0].status, EditStatus::SkippedProtectedRegion);
    assert_eq!(edited.source_text(), "# S\n- a\n\n- d\n");
}

#[test]
fn a_limit_is_one_of_the_whole_folder() {
    let skill = package().document().unwrap();
    let n_tokens =
        estimate_tokens(MAIN) + package().references.values().map(|text| estimate_tokens(text)).sum::<u64>();
    let content = "- Ten words more are about as many tokens, or somewhat more.";
    let status = |most: u64| {
        let rules = EditRules { max_tokens: Some(most), ..EditRules::default() };
        let edit = of("references/dates.md", Edit::append(content));
        apply_package_patch(&skill, &[edit], &rules, FrontMatterEdits::Never).1[0].status.is_applied()
    };
    assert!(!status(n_tokens + 5));
    assert!(status(n_tokens + 5 + estimate_tokens(content)));
}

#[test]
fn front_matter_is_edited_only_where_that_is_asked_and_stays_sound() {
    let skill = package().document().unwrap();
    #[track_caller]
    fn check(skill: &SkillDoc, target: &str, content: &str, expect: Result<&str, EditStatus>) {
        let edit = Edit::new(EditOp::Replace, target, content);
        let (never, rows) = apply_package_patch(
            skill,
            std::slice::from_ref(&edit),
            &EditRules::default(),
            FrontMatterEdits::Never,
        );
        assert!(!rows[0].status.is_applied() && never == *skill, "{rows:?}");
        let (edited, rows) =
            apply_package_patch(skill, &[edit], &EditRules::default(), FrontMatterEdits::Sound);
        match expect {
            Ok(description) => {
                let read = FrontMatter::read(main_file(&edited)).unwrap().unwrap();
                assert_eq!(read.description.as_deref(), Some(description), "{rows:?}");
                assert!(rows[0].status.is_applied());
            }
            Err(status) => assert_eq!((rows[0].status, &edited), (status, skill), "{rows:?}"),
        }
    }
    check(&skill, "Answers trivia.", "Answers short questions.", Ok("Answers short questions."));
    let protected = Err(EditStatus::SkippedProtectedRegion);
    check(&skill, "name: trivia", "name: other", protected);
    check(&skill, "Answers trivia.", "", protected);
    check(&skill, "Answers trivia.", "a: b: c", protected);
    check(&skill, "Answers trivia.", "x\n---\n# Trivia", protected);
    check(&skill, "description: Answers trivia.\n", "", protected);
}

#[test]
fn each_reader_sees_its_part() {
    let skill = package().document().unwrap();
    insta::assert_snapshot!("agent_text", skill.agent_view());
    insta::assert_snapshot!("optimizer_text", skill.optimizer_view());
    insta::assert_snapshot!("tree", tree(&skill));
    assert_eq!(main_file(&skill), MAIN);
    assert_eq!(tree(&SkillDoc::new(MAIN)), "");
    assert_eq!(SkillDoc::new(MAIN).optimizer_view().as_str(), MAIN);
    insta::assert_debug_snapshot!(SkillDoc::new(MAIN).agent_view().as_str(), @r##""# Trivia\n\n- Be brief.\n""##);
}

#[test]
fn what_works_on_a_document_works_on_the_main_file() {
    let skill = package().document().unwrap();
    let shout = |main: &SkillDoc| SkillDoc::new(main.source_text().to_uppercase());
    let edited = SkillPackage::of(&edit_main(&skill, shout));
    assert_eq!((edited.main, edited.references), (MAIN.to_uppercase(), package().references));
    assert_eq!(edit_main(&SkillDoc::new("a"), shout).source_text(), "A");
    let split = |_: &SkillDoc| SkillDoc::new("a\n<!-- SKILL_FILE: references/x.md -->\n");
    assert_eq!(edit_main(&skill, split), skill);
}

#[test]
fn the_specification_decides_about_front_matter() {
    let mut said = String::new();
    let mut check = |yaml: &str, expect: &[&str]| {
        let main = format!("---\n{yaml}---\n# S\n");
        let faults = check_front_matter(&main, Some("pdf-forms"));
        let found: Vec<String> = faults
            .iter()
            .map(|fault| format!("{}{} {}", fault.rule, if fault.is_error { "" } else { "?" }, fault.line))
            .collect();
        assert_eq!(found, expect, "{yaml}");
        said.extend(faults.iter().map(|fault| format!("{} {}: {}\n", fault.rule, fault.line, fault.message)));
    };
    const GOOD: &str = "name: pdf-forms\ndescription: Fills forms.\n";
    let with = |rest: &str| format!("{GOOD}{rest}");
    check(GOOD, &[]);
    check(
        &with(
            "license: MIT\ncompatibility: Needs git\nallowed-tools: Read Bash(git:*)\nmetadata:\n  author: me\n  version: \"1.0\"\n",
        ),
        &[],
    );
    check(&with("allowed-tools:\n  - Read\n  - Bash(git:*)\n"), &[]);
    check("name: pdf-forms\ndescription: >-\n  Fills\n  forms: all of them.\n", &[]);
    check("", &["spec-name 1", "spec-description 1"]);
    check("name: PDF-Forms\ndescription: x\n", &["spec-name 2", "spec-folder 2"]);
    check("description: x\nname: pdf--forms\n", &["spec-name 3", "spec-folder 3"]);
    check("name: 12\ndescription: x\n", &["spec-name 2"]);
    check("name: pdf-forms\ndescription: ''\n", &["spec-description 3"]);
    check(&format!("name: pdf-forms\ndescription: {}\n", "é".repeat(1025)), &["spec-description 3"]);
    check(&format!("name: pdf-forms\ndescription: {}\n", "é".repeat(1024)), &[]);
    check(&with(&format!("compatibility: {}\n", "x".repeat(501))), &["spec-compatibility 4"]);
    check(&with("metadata:\n  version: 1.0\n"), &["spec-metadata? 4"]);
    check(&with("metadata: x\n"), &["spec-metadata 4"]);
    check(&with("allowed-tools: 7\n"), &["spec-allowed-tools 4"]);
    check(&with("model: big\n"), &["spec-field? 4"]);
    check("- a\n", &["spec-front-matter 2"]);
    insta::assert_snapshot!("front_matter_faults", said);
    let faults = check_front_matter("---\nname: x\ndescription: a: b\n---\n", None);
    assert_eq!(
        (faults[0].rule, faults[0].line, faults[0].is_error),
        ("spec-front-matter", 3, true),
        "{faults:?}"
    );
    assert!(faults[0].message.contains("YAML") && !faults[0].message.contains("line"), "{faults:?}");
    let faults = check_front_matter("# S\n", None);
    assert_eq!((faults.len(), faults[0].rule), (1, "spec-front-matter"));
    let faults = check_front_matter("---\nname: größe\ndescription: x\n---\n", None);
    assert_eq!((faults.len(), faults[0].is_error), (1, false), "{faults:?}");
    // Names are compared as the validator compares them: composed and decomposed letters are the same.
    for (name, folder) in [("gr\u{f6}\u{df}e", "gro\u{308}\u{df}e"), ("gro\u{308}\u{df}e", "gr\u{f6}\u{df}e")]
    {
        let faults = check_front_matter(&format!("---\nname: {name}\ndescription: x\n---\n"), Some(folder));
        assert_eq!((faults.len(), faults[0].is_error), (1, false), "{faults:?}");
    }
    let twice = check_front_matter("---\nname: x\ndescription: a\nname: y\n---\n", None);
    assert_eq!((twice.len(), twice[0].rule), (1, "spec-front-matter"), "{twice:?}");
    assert!(twice[0].message.contains("`name`") && !twice[0].message.contains("line"), "{twice:?}");
    let marked = check_front_matter("\u{feff}---\nname: x\ndescription: a\n---\n", None);
    assert_eq!((marked.len(), marked[0].line, marked[0].is_error), (1, 1, true), "{marked:?}");
    let long = format!("---\nname: {}\ndescription: x\n---\n", "a".repeat(65));
    let long = check_front_matter(&long, None);
    assert_eq!((long.len(), long[0].rule, long[0].line), (1, "spec-name", 2), "{long:?}");
    assert!(long[0].message.contains("65") && long[0].message.contains("64"), "{long:?}");
}

#[test]
fn a_field_of_some_agents_is_set_and_all_else_stays() {
    #[track_caller]
    fn check(main: &str, expect: &str) {
        assert_eq!(with_field(main, "when_to_use", "For: a"), expect);
    }
    check("---\nname: s\n---\n# S\n", "---\nname: s\nwhen_to_use: \"For: a\"\n---\n# S\n");
    check(
        "---\nwhen_to_use: >\n  Long\n  text.\nname: s\n---\n# S\n---\n",
        "---\nwhen_to_use: \"For: a\"\nname: s\n---\n# S\n---\n",
    );
    check("---\r\nname: s\r\n---\r\n# S\r\n", "---\r\nname: s\r\nwhen_to_use: \"For: a\"\r\n---\r\n# S\r\n");
    check("# S\n", "# S\n");
}

#[test]
fn names_and_descriptions_are_set_and_all_else_stays() {
    #[track_caller]
    fn check(main: &str, name: Option<&str>, description: Option<&str>, expect: &str) {
        let set = with_fields(main, name, description);
        assert_eq!(set, expect);
        let read = FrontMatter::read(&set).unwrap().unwrap();
        assert!(name.is_none() || read.name.as_deref() == name, "{read:?}");
        assert!(description.is_none() || read.description.as_deref() == description, "{read:?}");
    }
    check("# S\n", Some("s"), Some("Does S."), "---\nname: s\ndescription: Does S.\n---\n# S\n");
    check(
        "---\n# why\nname: s\ndescription: >\n  Long\n\n  text.\nlicense: MIT\n---\n# S\n",
        None,
        Some("a: \"b\""),
        "---\n# why\nname: s\ndescription: \"a: \\\"b\\\"\"\nlicense: MIT\n---\n# S\n",
    );
    check(
        "---\r\nname: s\r\ndescription: d\r\n---\r\n# S\r\n",
        Some("t"),
        None,
        "---\r\nname: t\r\ndescription: d\r\n---\r\n# S\r\n",
    );
    check(
        "---\nlicense: MIT\n---\n",
        Some("t"),
        Some("yes"),
        "---\nname: t\ndescription: \"yes\"\nlicense: MIT\n---\n",
    );
    check("", Some("t"), Some("1\n2"), "---\nname: t\ndescription: \"1\\n2\"\n---\n");
}

#[test]
fn a_name_is_made_of_any_text() {
    for (text, name) in
        [("My Task", "my-task"), ("runs/QA_2", "runs-qa-2"), ("--", ""), ("ä", ""), ("a", "a")]
    {
        assert_eq!(name_of(text), name);
    }
    assert_eq!(name_of(&"ab ".repeat(40)).len(), 64);
}

const PIECES: [&str; 14] = [
    "a",
    "\n",
    "\r\n",
    "---\n",
    "name: x\n",
    "- rule\n",
    "<!-- SKILL_FILE: ",
    "references/b.md",
    " -->",
    "\n<!-- SKILL_FILE: references/b.md -->\n",
    "<!-- SKILL_CARRIED: 644 ",
    "<!-- SLOW_UPDATE_START -->",
    "<!-- SLOW_UPDATE_END -->",
    "ä",
];

fn any_text(n_pieces: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..n_pieces).prop_map(|pieces| pieces.concat())
}

fn any_package() -> impl Strategy<Value = SkillPackage> {
    const PATHS: [&str; 3] = ["references/a.md", "references/b.md", "references/deep/c.md"];
    (
        any_text(10),
        prop::collection::btree_map(prop::sample::select(&PATHS[..]), any_text(10), 0..3),
        any::<bool>(),
    )
        .prop_map(|(main, references, carries)| {
            let references = references.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
            let mut package = SkillPackage { main, references, ..SkillPackage::default() };
            if carries {
                package.carry("scripts/run.sh", CarriedFile::new(*b"true\n", true));
            }
            package
        })
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let op = prop::sample::select(vec!["append", "insert_after", "replace", "delete", "noop"]);
    let file = prop::sample::select(vec![
        None,
        Some("SKILL.md"),
        Some("references/a.md"),
        Some("references/b.md"),
        Some("scripts/run.sh"),
        Some("../x"),
    ]);
    (op, any_text(3), any_text(5), file).prop_map(|(op, target, content, file)| Edit {
        file: file.map(str::to_owned),
        ..Edit::new(op.into(), target, content)
    })
}

proptest! {
    #[test]
    fn every_sound_package_comes_back(package in any_package()) {
        if let Ok(skill) = package.document() {
            prop_assert_eq!(SkillPackage::of(&skill), package);
        }
    }

    #[test]
    fn any_text_is_a_package_and_the_same_text_again(text in any_text(16)) {
        let package = SkillPackage::of(&SkillDoc::new(text.as_str()));
        if let Ok(skill) = package.document() {
            let again = SkillPackage::of(&skill);
            prop_assert_eq!(again, package);
        }
        SkillDoc::new(text.as_str()).agent_view();
        check_front_matter(&text, Some("x"));
    }

    #[test]
    fn no_patch_makes_or_removes_a_file(package in any_package(), edits in prop::collection::vec(any_edit(), 0..6)) {
        let Ok(skill) = package.document() else { return Ok(()) };
        for front_matter in [FrontMatterEdits::Never, FrontMatterEdits::Sound] {
            let (edited, rows) = apply_package_patch(&skill, &edits, &EditRules::default(), front_matter);
            prop_assert_eq!(rows.iter().map(|row| row.index).collect::<Vec<_>>(), (1..=edits.len()).collect::<Vec<_>>());
            let after = SkillPackage::of(&edited);
            prop_assert_eq!(after.references.keys().collect::<Vec<_>>(), package.references.keys().collect::<Vec<_>>());
            prop_assert_eq!(&after.carried, &package.carried);
            prop_assert!(after.document().is_ok());
            if rows.iter().all(|row| !row.status.is_applied()) {
                prop_assert_eq!(edited, skill.clone());
            }
        }
    }
}

/// Source files outside `skill-core` that may read the source text of a skill, and what for. No prompt is made in any
/// of them.
const SOURCE_TEXT_READERS: [(&str, &str); 11] = [
    ("skill-bank/src/source.rs", "makes one document of a skill and the selected skills of a bank"),
    ("skill-cli/src/command/diff.rs", "shows a person what changed"),
    ("skill-envs/src/source.rs", "sends what is shown to another process"),
    ("skill-pipeline/src/provenance/lines.rs", "traces lines of a run's files to edits"),
    ("skill-pipeline/src/run_dir/held.rs", "writes a run's files"),
    ("skill-report/src/data/epochs.rs", "shows a person what changed"),
    ("skill-report/src/data/steps.rs", "shows a person what changed"),
    ("skill-sim/src/rewriting.rs", "the simulated optimizer applies edits"),
    ("skillrl-python/src/decisions.rs", "returns what the editor made"),
    ("skillrl/src/prune.rs", "writes the pruned skill"),
    ("skillrl/src/skills.rs", "tells a skill from other files"),
];

#[test]
fn only_editors_files_of_runs_and_hashes_reach_the_source_text() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut readers = std::collections::BTreeSet::new();
    let mut n_files = 0;
    for entry in std::fs::read_dir(&crates).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name == "skill-core" {
            continue;
        }
        let mut files = all_files(&entry.path().join("src"));
        files.retain(|path, _| path.ends_with(".rs"));
        n_files += files.len();
        // With `into_source_text`.
        files.retain(|_, bytes| str::from_utf8(bytes).unwrap().contains("source_text("));
        readers.extend(files.into_keys().map(|path| format!("{name}/src/{path}")));
    }
    assert!(n_files > 300, "the workspace was not found: {n_files} files");
    let allowed = SOURCE_TEXT_READERS.map(|(path, _)| path.to_owned());
    assert_eq!(readers.into_iter().collect::<Vec<_>>(), allowed);
}
