//! Groups about edits and their selection.

use super::Verdict::{self, Differs, Ours};
use serde_json::{Value, json};
use skill_core::appendix::{append_to_appendix, inject_appendix};
use skill_core::editor::{EditStatus, apply_edit as apply};
use skill_core::region::protected_regions;
use skill_core::{Edit, EditOp, Patch, SkillDoc, select_edits};

pub(crate) fn appendix_inject(input: &Value, _: &Value) -> Verdict {
    Ours(json!(inject_appendix(&SkillDoc::new(input.as_str().unwrap()))))
}

pub(crate) fn appendix_append(input: &Value, _: &Value) -> Verdict {
    let notes: Vec<String> =
        input[1].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned()).collect();
    Ours(json!(append_to_appendix(&SkillDoc::new(input[0].as_str().unwrap()), &notes)))
}

const MARKERS: [&str; 4] = [
    "<!-- SLOW_UPDATE_START -->",
    "<!-- SLOW_UPDATE_END -->",
    "<!-- APPENDIX_START -->",
    "<!-- APPENDIX_END -->",
];

pub(crate) fn apply_edit(input: &Value, recorded: &Value) -> Verdict {
    let doc = SkillDoc::new(input["skill"].as_str().unwrap());
    let fields = &input["edit"];
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    let edit = Edit::new(EditOp::from(text("op")), text("target"), text("content"));
    let (after, row) = apply(&doc, &edit);
    let ours = json!({"skill": after.source_text(), "report": [row]});

    let is_null = |key: &str| fields.get(key).is_some_and(Value::is_null);
    if recorded["report"][0]["status"] == "error" && (is_null("content") || is_null("target")) {
        assert_eq!(row.op, edit.op, "a null field is a missing one");
        if !is_null("content") {
            assert!(row.status.is_applied(), "{row:?}");
        }
        return Differs("defect 6: null and missing are the same");
    }
    if text("content").trim().is_empty() && matches!(edit.op, EditOp::Append | EditOp::InsertAfter) {
        assert_eq!((after, row.status), (doc, EditStatus::SkippedEmptyContent));
        return Differs("an edit that adds nothing is skipped, not applied as blank lines");
    }
    if touches_protected(doc.source_text(), recorded["skill"].as_str().unwrap()) {
        assert_eq!(row.status, EditStatus::SkippedProtectedRegion);
        assert_eq!(after, doc);
        return Differs("defect 12: protected regions and markers survive everything");
    }
    if recorded["report"][0]["status"] == "skipped_protected_region" && row.status.is_applied() {
        assert!(!touches_protected(doc.source_text(), after.source_text()), "{row:?}");
        return Differs("defect 12: an anchor that stands outside the regions too is found there");
    }
    if doc.source_text().trim().is_empty() && row.status.is_applied() {
        assert_eq!(after.source_text(), recorded["skill"].as_str().unwrap().trim_start_matches('\n'));
        return Differs("defect 24: the first content of an empty skill has no blank lines above it");
    }
    Ours(ours)
}

/// Whether the reference's edit changed what is protected, or the markers.
fn touches_protected(before: &str, after: &str) -> bool {
    let markers = |text: &str| MARKERS.map(|marker| text.matches(marker).count());
    let regions = |text: &str| -> Vec<String> {
        protected_regions(text)
            .iter()
            .map(|region| text.get(region.range.clone()).unwrap().to_owned())
            .collect()
    };
    markers(before) != markers(after) || regions(before) != regions(after)
}

pub(crate) fn rank_and_select(input: &Value, _: &Value) -> Verdict {
    let edits: Vec<Edit> = (0..5).map(|idx| Edit::append(format!("e{idx}"))).collect();
    let patch = Patch { reasoning: "R".to_owned(), edits, ranking_details: None };
    let reply = skill_core::extract_json(input[0].as_str().unwrap());
    let budget = usize::try_from(input[1].as_u64().unwrap()).unwrap();
    let ours = select_edits(&patch, reply.as_ref(), budget);
    if budget == 0 {
        assert_eq!(ours.edits, []);
        return Differs("defect 8: a budget of 0 is 0");
    }
    let indices = reply.as_ref().and_then(|reply| reply.get("selected_indices")).and_then(Value::as_array);
    let is_odd = |index: &Value| !index.is_i64();
    if patch.edits.len() > budget && indices.is_some_and(|indices| indices.iter().any(is_odd)) {
        let mut expected: Vec<Edit> = Vec::new();
        for index in indices.unwrap() {
            let place = match index {
                Value::String(text) => text.trim().parse::<usize>().ok(),
                Value::Number(number) if number.as_f64().unwrap().fract() == 0.0 => {
                    format!("{:.0}", number.as_f64().unwrap()).parse().ok()
                }
                _ => None,
            };
            let edit = place.and_then(|place| patch.edits.get(place)).cloned();
            expected.extend(edit.filter(|edit| !expected.contains(edit)));
        }
        expected.truncate(budget);
        if !expected.is_empty() {
            assert_eq!(ours.edits, expected);
            return Differs("defect 26: integral numbers and digit strings are indices, booleans are not");
        }
    }
    Ours(serde_json::to_value(ours).unwrap())
}
