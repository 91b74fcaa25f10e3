//! Files of queries, and what agents list of skills.

use skill_agents::query::{Query, QueryFault, read_queries, warnings};
use skill_agents::{DescriptionVisibility, MEASURED_WINDOW, Skill, SkillFault, Texts, agent, listed};
use skill_core::SkillPackage;
use skill_core::carried::CarriedFile;

fn read(text: &str, file: &str) -> Vec<(String, Option<String>)> {
    let queries = read_queries(text, file, "mine").unwrap();
    queries.into_iter().map(|query| (query.query, query.skill)).collect()
}

#[track_caller]
fn check(text: &str, file: &str, expect: &[(&str, Option<&str>)]) {
    let expect: Vec<(String, Option<String>)> =
        expect.iter().map(|(query, skill)| ((*query).to_owned(), skill.map(str::to_owned))).collect();
    assert_eq!(read(text, file), expect);
}

#[test]
fn queries_of_all_formats_are_read() {
    let both = [("a", Some("mine")), ("b", None)];
    check(
        "{\"query\": \"a\", \"should\": true}\n\n{\"query\": \"b\", \"should\": false}\n",
        "q.jsonl",
        &both,
    );
    check(
        r#"[{"query": "a", "should_trigger": true}, {"query": "b", "should_trigger": false}]"#,
        "q.json",
        &both,
    );
    let evals = r#"{"skill_name": "mine", "evals": [{"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b", "skill_should_trigger": false}]}"#;
    check(evals, "evals.json", &both);
    let lab = "skill: mine\ntest_cases:\n  - id: x\n    type: implicit\n    prompt: a\n  - id: y\n    type: negative\n    prompt: b\n    expected: no_trigger\n";
    check(lab, "triggers.yaml", &both);
    let waza = "should_trigger_prompts:\n  - prompt: a\nshould_not_trigger_prompts:\n  - b\n";
    check(waza, "trigger_tests.yaml", &both);
    check(r#"{"query": "a", "should": "other"}"#, "q.jsonl", &[("a", Some("other"))]);
}

#[test]
fn wrong_entries_are_named_with_their_place() {
    let place = |text: &str| match read_queries(text, "q.jsonl", "mine") {
        Err(
            QueryFault::Entry { place, .. } | QueryFault::Syntax { place, .. } | QueryFault::Empty { place },
        ) => place,
        Err(fault) => panic!("{fault}"),
        Ok(queries) => panic!("{queries:?}"),
    };
    for (text, expect) in [
        ("{\"query\": \"a\", \"should\": true}\n{\"should\": true}\n", "q.jsonl:2"),
        ("{\"query\": \"a\"}\nnot json\n", "q.jsonl:2"),
        ("{\"query\": \"a\", \"should\": true}\n{\"query\": \"a\", \"should\": false}\n", "q.jsonl:2"),
        ("{\"query\": \"a\", \"should\": 3}\n{\"query\": \"b\", \"should\": false}", "q.jsonl:1"),
        ("", "q.jsonl"),
    ] {
        assert_eq!(place(text), expect, "{text}");
    }
}

/// A file that is read in part would measure one half of the queries, and a draft that counts as reviewed none at all.
#[test]
fn no_list_and_no_field_is_passed_over() {
    #[track_caller]
    fn check(text: &str, names: &[&str]) {
        let found = match read_queries(text, "q.json", "mine") {
            Err(QueryFault::Entry { what, .. }) => Some(what),
            Err(fault) => panic!("{text}: {fault}"),
            Ok(_) => None,
        };
        assert_eq!(found.is_some(), !names.is_empty(), "{text}");
        assert!(names.iter().all(|name| found.as_ref().unwrap().contains(name)), "{text}: {found:?}");
    }
    const SHOULD: &str = r#""should_trigger_prompts": ["a"]"#;
    let with = |more: &str| format!("{{{SHOULD}, {more}}}");
    check(
        &with(r#""should_not_triger_prompts": ["b"]"#),
        &["`should_not_triger_prompts`", "`should_not_trigger_prompts`"],
    );
    check(&with(r#""should_not_triger": ["b"]"#), &["`should_not_triger`", "`should_not_trigger_prompts`"]);
    check(&with(r#""others": [{"prompt": "b"}]"#), &["`others`", "queries"]);
    check(&with(r#""should_not_trigger_prompts": {"b": 1}"#), &["`should_not_trigger_prompts`", "a list"]);
    check(&with(r#""tags": ["b"], "evals": null, "config": {"runs": 3}, "metrics": [{"name": "x"}]"#), &[]);
    let entry = |more: &str| format!(r#"[{{"query": "a", "should": true, {more}}}]"#);
    check(&entry(r#""reviewed": "false""#), &["`reviewed`", "true or false"]);
    check(&entry(r#""near_miss": 1"#), &["`near_miss`"]);
    check(&entry(r#""id": ["x"]"#), &["`id`"]);
    check(&entry(r#""split": 1"#), &["`split`"]);
    check(&entry(r#""type": ["negative"]"#), &["`type`"]);
    check(&entry(r#""id": null, "reviewed": null, "expected_output": [1]"#), &[]);
}

#[test]
fn a_set_without_negatives_is_told() {
    let should = r#"{"query": "a", "should": true}"#;
    let near_miss = r#"{"query": "b", "should": false, "near_miss": true}"#;
    let both = format!("{should}\n{near_miss}");
    for (text, n_warnings) in [(should, 1), (near_miss, 1), (&both, 0)] {
        let queries: Vec<Query> = read_queries(text, "q.jsonl", "mine").unwrap();
        assert_eq!(warnings(&queries).len(), n_warnings, "{text}");
    }
}

fn skill(folder: &str, n_chars: usize, more: &str) -> Skill {
    let description = "x".repeat(n_chars);
    let main = format!("---\nname: {folder}\ndescription: {description}\n{more}---\n# A\n");
    Skill::new(folder, SkillPackage { main, ..SkillPackage::default() }).unwrap()
}

/// A damaged file for Codex would let it list a skill that asks not to be listed.
#[test]
fn what_codex_is_told_is_read_or_named() {
    let with = |text: &[u8]| {
        let mut package = skill("a", 20, "").package;
        package.carry("agents/openai.yaml", CarriedFile::new(text, false));
        Skill::new("a", package)
    };
    for (text, expect) in [
        ("policy:\n  allow_implicit_invocation: false\n", Some(true)),
        ("policy: {}\n", Some(false)),
        ("interface:\n  display_name: A\n", Some(false)),
        ("", Some(false)),
        ("policy: [\n", None),
        ("- policy\n", None),
        ("policy: never\n", None),
        ("policy:\n  allow_implicit_invocation: \"false\"\n", None),
        ("policy:\n  display_name: \u{e9}\n", Some(false)),
    ] {
        match (with(text.as_bytes()), expect) {
            (Ok(skill), expect) => assert_eq!(Some(skill.is_for_people_in_codex), expect, "{text}"),
            (Err(SkillFault::CodexFile { folder, .. }), None) => assert_eq!(folder, "a"),
            (Err(fault), _) => panic!("{text}: {fault}"),
        }
    }
    assert!(matches!(with(b"policy: \xff"), Err(SkillFault::CodexFile { .. })));
}

fn shown(name: &str, skills: &[Skill], with_bundled: bool) -> Vec<DescriptionVisibility> {
    let row = agent(name).unwrap().unwrap();
    let skills: Vec<&Skill> = skills.iter().collect();
    listed(row, &skills, with_bundled, MEASURED_WINDOW).into_iter().map(|row| row.shown).collect()
}

/// The listing of Claude Code and of Codex is a share of the window of their model, that of others is not.
#[test]
fn a_larger_window_lists_more_of_the_descriptions() {
    let skills: Vec<Skill> = (0..17).map(|idx| skill(&format!("filler-{idx:03}"), 500, "")).collect();
    let skills: Vec<&Skill> = skills.iter().collect();
    let n_whole = |name: &str, window: u64| {
        let rows = listed(agent(name).unwrap().unwrap(), &skills, true, window);
        rows.iter().filter(|row| row.shown.is_whole()).count()
    };
    for (name, small, large) in [("claude-code", 3, 17), ("codex", 17, 17), ("copilot-cli", 17, 17)] {
        assert_eq!([n_whole(name, 200_000), n_whole(name, 1_000_000)], [small, large], "{name}");
    }
    assert_eq!([n_whole("codex", 100_000), n_whole("codex", 8_000)], [0, 0]);
    let claude = agent("claude-code").unwrap().unwrap();
    for (model, window) in [
        (None, Some(1_000_000)),
        (Some("claude-sonnet-4-5-20250929"), Some(200_000)),
        (Some("sonnet"), Some(1_000_000)),
        (Some("claude-sonnet-4-5-20250929[1m]"), Some(1_000_000)),
        (Some("haiku"), Some(200_000)),
        (Some("my-model"), None),
    ] {
        assert_eq!(claude.window(model), window, "{model:?}");
    }
}

#[test]
fn long_descriptions_are_cut_dropped_or_not_listed() {
    let long = [skill("a", 2000, "")];
    assert_eq!(shown("claude-code", &long, false), [DescriptionVisibility::Cut(1536)]);
    assert_eq!(shown("codex", &long, false), [DescriptionVisibility::Cut(1024)]);
    assert_eq!(shown("copilot-cli", &long, false), [DescriptionVisibility::TooLong]);
    assert_eq!(shown("gemini-cli", &long, false), [DescriptionVisibility::Whole]);
}

#[test]
fn budgets_are_near_those_that_were_measured() {
    let of = |n: usize, n_chars: usize| -> Vec<Skill> {
        (0..n).map(|idx| skill(&format!("filler-{idx:03}"), n_chars, "")).collect()
    };
    let n_whole = |rows: &[DescriptionVisibility]| rows.iter().filter(|shown| shown.is_whole()).count();
    // Claude Code beside its own skills: one of 1,000 characters, eight of 200.
    assert_eq!(n_whole(&shown("claude-code", &of(2, 1000), true)), 1);
    let rows = n_whole(&shown("claude-code", &of(12, 200), true));
    assert!((7..=10).contains(&rows), "{rows}");
    // Codex cuts all to one length: 650 of 20, about 140 of 80.
    let length = |n: usize| match shown("codex", &of(n, 1000), true)[0] {
        DescriptionVisibility::Cut(length) => length,
        other => panic!("{other:?}"),
    };
    assert!(
        (520..=680).contains(&length(20)) && (90..=160).contains(&length(80)),
        "{} {}",
        length(20),
        length(80)
    );
    assert_eq!(n_whole(&shown("pi", &of(80, 1000), true)), 80);
}

#[test]
fn skills_for_people_alone_are_not_listed_by_agents_that_heed_it() {
    let skills = [skill("a", 20, "disable-model-invocation: true\n")];
    for (name, expect) in [
        ("claude-code", DescriptionVisibility::ForPeople),
        ("copilot-cli", DescriptionVisibility::ForPeople),
        ("pi", DescriptionVisibility::ForPeople),
        ("qwen-code", DescriptionVisibility::ForPeople),
        ("codex", DescriptionVisibility::Whole),
        ("gemini-cli", DescriptionVisibility::Whole),
        ("opencode", DescriptionVisibility::Whole),
    ] {
        assert_eq!(shown(name, &skills, false), [expect], "{name}");
    }
}

#[test]
fn a_skill_needs_a_description_and_its_name_is_that_which_an_agent_uses() {
    let main = "---\nname: other\ndescription: Does it.\nwhen_to_use: Always.\n---\n# A\n".to_owned();
    let skill = Skill::new("folder", SkillPackage { main, ..SkillPackage::default() }).unwrap();
    let row = |name: &str| agent(name).unwrap().unwrap();
    assert_eq!(skill.listed_name(row("claude-code")), "folder");
    assert_eq!(skill.listed_name(row("codex")), "other");
    assert_eq!(skill.listed_text(row("claude-code")), "Does it. - Always.");
    assert_eq!(skill.listed_text(row("codex")), "Does it.");
    for main in ["# A\n", "---\nname: a\n---\n# A\n", "---\n: : :\n---\n"] {
        assert!(Skill::new("a", SkillPackage { main: main.to_owned(), ..SkillPackage::default() }).is_err());
    }
    let texts = |description: &str, when: Option<&str>| Texts {
        description: description.to_owned(),
        when_to_use: when.map(str::to_owned),
    };
    assert_eq!(skill.texts(row("claude-code")), texts("Does it.", Some("Always.")));
    assert_eq!(skill.texts(row("codex")), texts("Does it.", None));
    let both = skill.with_texts(&texts("Does b.", Some("At times: b."))).unwrap();
    assert_eq!(both.texts(row("claude-code")), texts("Does b.", Some("At times: b.")));
    assert_eq!(both.package.body(), skill.package.body());
    let other = skill.with_texts(&texts("Does \"more\": really.", None)).unwrap();
    assert_eq!(other.when_to_use.as_deref(), Some("Always."));
    assert_eq!(
        (other.description.as_str(), other.package.body()),
        ("Does \"more\": really.", skill.package.body())
    );
    assert_ne!(other.hash(), skill.hash());
}

#[test]
fn a_plugin_has_the_files_that_agents_read() {
    use skill_agents::plugin::{Plugin, PluginFault, plugin_files};
    let plugin = |name: &str| Plugin {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        description: "Skills.".to_owned(),
    };
    let files = plugin_files(&plugin("harbour"), &[skill("a", 9, ""), skill("b", 9, "")]).unwrap();
    let paths: Vec<&str> = files.iter().map(|(path, ..)| path.as_str()).collect();
    let expect = [
        "plugin.json",
        ".claude-plugin/plugin.json",
        ".claude-plugin/marketplace.json",
        ".codex-plugin/plugin.json",
        ".agents/plugins/marketplace.json",
        "README.md",
        "skills/a/SKILL.md",
        "skills/b/SKILL.md",
    ];
    assert_eq!(paths, expect);
    let root: serde_json::Value = serde_json::from_slice(&files[0].1).unwrap();
    let keys: Vec<&String> = root.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["$schema", "name", "version", "description"]);
    for name in ["", "Harbour", "a--b", "a..b", "a b", &"x".repeat(65)] {
        assert!(matches!(plugin_files(&plugin(name), &[]), Err(PluginFault::Name { .. })), "{name}");
    }
    for name in ["../a", "a/b", "a b", ".."] {
        let mut unsafe_name = skill("a", 9, "");
        unsafe_name.name = name.to_owned();
        let found = plugin_files(&plugin("p"), &[unsafe_name]);
        assert!(matches!(found, Err(PluginFault::SkillName { .. })), "{name}");
    }
    let twice = [skill("a", 9, ""), skill("a", 8, "")];
    assert!(matches!(plugin_files(&plugin("p"), &twice), Err(PluginFault::SameName { .. })));
}

#[test]
fn a_query_may_name_a_skill_by_its_folder_or_by_its_front_matter() {
    use skill_agents::query::resolve;
    let main = "---\nname: other\ndescription: Does it.\n---\n# A\n".to_owned();
    let skills = [Skill::new("folder", SkillPackage { main, ..SkillPackage::default() }).unwrap()];
    for (agent_name, listed) in [("claude-code", "folder"), ("codex", "other")] {
        let lines = r#"{"query": "a", "should": "folder"}
{"query": "b", "should": "other"}
{"query": "c", "should": false}"#;
        let row = agent(agent_name).unwrap().unwrap();
        let mut queries = read_queries(lines, "q.jsonl", listed).unwrap();
        resolve(&mut queries, &skills, row).unwrap();
        let names: Vec<Option<&str>> = queries.iter().map(|query| query.skill.as_deref()).collect();
        assert_eq!(names, [Some(listed), Some(listed), None]);
        let mut strange = read_queries(r#"{"query": "a", "should": "third"}"#, "q.jsonl", listed).unwrap();
        assert_eq!(resolve(&mut strange, &skills, row), Err("third".to_owned()));
    }
}
