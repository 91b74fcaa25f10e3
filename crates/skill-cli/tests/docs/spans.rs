//! The table of spans, which the pages show, against the places that make spans.

use crate::markdown::root;
use regex::Regex;
use skillrl::llm::telemetry::SPANS;
use std::collections::{BTreeMap, BTreeSet};

/// The files that make spans.
const MADE_IN: [&str; 5] = [
    "skill-llm/src/layer/retry.rs",
    "skill-llm/src/layer/trace.rs",
    "skill-pipeline/src/shell/spans.rs",
    "skill-pipeline/src/stage/mod.rs",
    "skill-pipeline/src/stage/rollout.rs",
];
/// Fields that say how a span is sent, and are no attributes of it.
const OF_THE_SPAN: [&str; 3] = ["NAME", "KIND", "STATUS"];

#[test]
fn the_table_of_spans_has_every_span_with_all_its_attributes() {
    let read = |file: &str| std::fs::read_to_string(root().join("crates").join(file)).unwrap();
    let constant = Regex::new(r#"pub const (\w+): &str = "([^"]+)";"#).unwrap();
    let names = read("skill-llm/src/telemetry.rs");
    let names: BTreeMap<&str, &str> = constant
        .captures_iter(&names)
        .map(|found| found.extract().1)
        .map(|[name, text]| (name, text))
        .collect();
    let span = Regex::new(r"_span!\(\s*telemetry::(\w+),([^;]*?)\n\s*\)").unwrap();
    let field = Regex::new(r"\{ telemetry::(\w+) \} =").unwrap();
    let mut made: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in MADE_IN {
        let source = read(file);
        for [kind, fields] in span.captures_iter(&source).map(|found| found.extract().1) {
            let fields = field.captures_iter(fields).map(|found| found.extract::<1>().1[0]);
            let fields = fields.filter(|name| !OF_THE_SPAN.contains(name)).map(|name| names[name]);
            assert!(made.insert(names[kind], fields.collect()).is_none(), "{file} makes `{kind}` again");
        }
    }
    let listed = SPANS.iter().map(|span| (span.name, span.attributes.iter().copied().collect()));
    assert_eq!(made, listed.collect());
}
