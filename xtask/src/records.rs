//! The page about the files of a run: every field of every record, out of the types that write them.
//!
//! The source is read as text: a type's fields with the first paragraph of what is said of them. That is enough for
//! the plain structs that records are, and keeps this task free of the crates.

use anyhow::{Context as _, bail};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Where the page is.
pub(crate) const PAGE: &str = "docs/reference/records.md";

/// A heading of the page, and the types that are listed below it.
struct Section {
    title: &'static str,
    /// What is in the file.
    text: &'static str,
    /// Each with the file that it is in.
    types: &'static [(&'static str, &'static str)],
}

const SHARED: &str = "crates/skill-pipeline/src/records/mod.rs";
const DOCUMENT: &str = "crates/skill-pipeline/src/records/document.rs";
const EVALUATION: &str = "crates/skill-pipeline/src/records/evaluation.rs";
const NOTES: &str = "crates/skill-pipeline/src/run_dir/notes.rs";
const CONSTRAINTS: &str = "crates/skill-core/src/constraints.rs";
const EPOCHS: &str = "crates/skill-pipeline/src/records/epoch.rs";
const PAIRED: &str = "crates/skill-pipeline/src/records/paired.rs";
const SUMMARY: &str = "crates/skill-pipeline/src/records/summary.rs";
const TIMINGS: &str = "crates/skill-pipeline/src/run_dir/timings.rs";
const FILES: &str = "crates/skill-pipeline/src/run_dir/files.rs";
const LINEAGE: &str = "crates/skill-core/src/lineage.rs";
const LIVE: &str = "crates/skill-pipeline/src/run_dir/live.rs";
const GUARD: &str = "crates/skill-core/src/guard.rs";
const EDIT: &str = "crates/skill-core/src/edit.rs";
const ROW: &str = "crates/skill-core/src/editor/row.rs";
const ROLLOUT: &str = "crates/skill-core/src/rollout.rs";
const TRAJECTORY: &str = "crates/skill-core/src/trajectory.rs";
const REPLY: &str = "crates/skill-core/src/reply.rs";

const SECTIONS: &[Section] = &[
    Section {
        title: "`config.json`",
        text: "One object.\nIts last field, `checksum`, is the SHA-256 of all bytes before it.",
        types: &[("ConfigFile", SHARED)],
    },
    Section {
        title: "`runtime_state.json`",
        text: "One object, written last in a step: it commits the step.\nIts last field, `checksum`, is the SHA-256 of all bytes before it.",
        types: &[
            ("RuntimeState", DOCUMENT),
            ("EpochEndState", DOCUMENT),
            ("SkillId", LINEAGE),
            ("SkillOrigin", LINEAGE),
        ],
    },
    Section {
        title: "`step_record.json`, `history.jsonl`, `history.json`",
        text: "One object, the same as a line each, and at the end of the run a list of them.",
        types: &[
            ("StepRecord", DOCUMENT),
            ("StepAction", DOCUMENT),
            ("PairedRecord", PAIRED),
            ("SavingRecord", DOCUMENT),
            ("Guarded", GUARD),
            ("ApplySummary", DOCUMENT),
            ("StageTokens", SHARED),
            ("MicroBatchRecord", DOCUMENT),
            ("BudgetDecision", DOCUMENT),
        ],
    },
    Section {
        title: "`notes.jsonl`, `notes.json`",
        text: "A line for each note of a person; in the directory of a step, what that step has read.",
        types: &[("RunNote", NOTES), ("StepNotesFile", NOTES), ("Forbidden", CONSTRAINTS)],
    },
    Section {
        title: "`rollout_results.json`, `results.json`",
        text: "A list with an object for each item.",
        types: &[
            ("RolloutResult", ROLLOUT),
            ("Trajectory", TRAJECTORY),
            ("TrajectoryMessage", TRAJECTORY),
            ("ToolCall", REPLY),
            ("TrajectoryTurn", TRAJECTORY),
            ("ToolUse", TRAJECTORY),
            ("Ending", TRAJECTORY),
            ("FinishReason", REPLY),
            ("ReplyTokens", REPLY),
            ("TokenLogprob", REPLY),
            ("TopLogprob", REPLY),
        ],
    },
    Section {
        title: "`raw_patches.json`, `merged_patch.json`, `ranked_patch.json`",
        text: "A list of what the analysts proposed (`RawPatch`); one patch each.",
        types: &[("RawPatch", EDIT), ("Patch", EDIT), ("Edit", EDIT), ("EditOp", EDIT)],
    },
    Section {
        title: "`edit_apply_report.json`",
        text: "A list with an object for each edit, in order.",
        types: &[("EditRow", ROW), ("EditStatus", ROW)],
    },
    Section {
        title: "`summary.json` of an evaluation",
        text: "The first of these for a whole evaluation, the second for one that was given up early.",
        types: &[
            ("EvaluationSummary", EVALUATION),
            ("PartialEvaluationSummary", EVALUATION),
            ("TaskTypeScore", EVALUATION),
        ],
    },
    Section {
        title: "`slow_result.json`, `meta_skill_result.json`, `comparison_pairs.json`",
        text: "One object each, and a list of pairs.",
        types: &[
            ("SlowUpdateRecord", EPOCHS),
            ("SlowUpdateAction", EPOCHS),
            ("MetaSkillRecord", EPOCHS),
            ("MetaSkillAction", EPOCHS),
            ("PairRecord", EPOCHS),
            ("PairSide", EPOCHS),
        ],
    },
    Section {
        title: "`summary.json`",
        text: "One object, there when the run is finished.",
        types: &[("Summary", SUMMARY), ("FreshRecord", PAIRED), ("EpochEndCounts", DOCUMENT)],
    },
    Section {
        title: "`timings.jsonl`, `timings.json`",
        text: "An object a line, and the sum of the lines: no record holds seconds.",
        types: &[
            ("TimingsLine", TIMINGS),
            ("FileMark", TIMINGS),
            ("Timings", TIMINGS),
            ("ProcessTiming", TIMINGS),
        ],
    },
    Section {
        title: "`files.jsonl`",
        text: "An object a line: the hashes of the files of one part of the run.",
        types: &[("FilesLine", FILES), ("RunPart", FILES)],
    },
    Section {
        title: "`events.jsonl`, `skillrl train --json`",
        text: "An object a line.\n`event` names what happened; the file adds `unix_ms`, milliseconds since 1970.",
        types: &[
            ("Event", "crates/skill-pipeline/src/event.rs"),
            ("Stage", "crates/skill-pipeline/src/event.rs"),
        ],
    },
    Section {
        title: "`live.json`",
        text: "One object, there while a process works on the run; the fields of `Pulse` and `Spend` are beside the others.",
        types: &[("LiveState", LIVE), ("Pulse", LIVE), ("Spend", LIVE)],
    },
];

/// The page.
pub(crate) fn markdown(root: &Path) -> anyhow::Result<String> {
    let mut page = String::from(
        "# Records\n\n\
         This page is made from the types that write the files by `cargo xtask gen`.\n\
         [run-directory.md](../run-directory.md) says which files there are.\n\n\
         Fields that are marked with \"?\" are left out, or null, where they say nothing.\n\
         `format_version` is `MAJOR.MINOR`: a reader refuses a newer major version and ignores fields that it does not know.\n\
         Scores are from 0 to 1.\n",
    );
    for section in SECTIONS {
        let _ = write!(page, "\n## {}\n\n{}\n", section.title, section.text);
        for (name, file) in section.types {
            let source =
                fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
            page.push_str(&table(name, &source).with_context(|| format!("{file} cannot be listed"))?);
        }
    }
    Ok(page)
}

/// The members of a type as a table below its name.
fn table(name: &str, source: &str) -> anyhow::Result<String> {
    let starts = [format!("pub struct {name} {{"), format!("pub enum {name} {{")];
    let mut lines = source
        .lines()
        .skip_while(|line| !starts.iter().any(|start| line.trim_start().starts_with(start.as_str())));
    let first = lines.next().with_context(|| format!("it has no type {name}"))?;
    let is_enum = first.contains("enum");
    // In the macro that names the values of an enum all lines are indented.
    let indent = " ".repeat(first.len() - first.trim_start().len());
    let end = format!("{indent}}}");
    let mut table = format!("\n### {name}\n\n| {} | |\n|---|---|\n", if is_enum { "value" } else { "field" });
    let mut members = 0;
    let (mut text, mut is_whole, mut may_lack, mut renamed) = (String::new(), false, false, None);
    let (mut is_written, mut is_flat) = (true, false);
    for line in lines.take_while(|line| *line != end) {
        let code = line.trim();
        if let Some(said) = code.strip_prefix("///") {
            // The first paragraph says what it is.
            is_whole |= said.trim().is_empty();
            if !is_whole {
                text.push_str(said);
            }
            continue;
        }
        if code.starts_with('#') {
            may_lack |= code.contains("skip_serializing_if");
            is_written &= code != "#[serde(skip)]";
            is_flat |= code.starts_with("#[serde(flatten");
            renamed =
                renamed.or_else(|| Some(code.split_once("rename = \"")?.1.split('"').next()?.to_owned()));
            continue;
        }
        let depth = (line.len() - line.trim_start().len()).saturating_sub(indent.len());
        if let Some(member) = member(code, is_enum && depth == 4).filter(|_| is_written) {
            let own = renamed.take().unwrap_or(member);
            let mark = if may_lack || code.contains(": Option<") { "?" } else { "" };
            let indent = if is_enum && depth > 4 { "· " } else { "" };
            let name = if is_flat { inner_fields(code) } else { format!("{indent}`{own}`{mark}") };
            let _ = writeln!(table, "| {name} | {} |", told(&text));
            members += 1;
        }
        (text, is_whole, may_lack, renamed) = (String::new(), false, false, None);
        (is_written, is_flat) = (true, false);
    }
    if members == 0 {
        bail!("{name} has no members");
    }
    Ok(table)
}

/// The cell for a flattened field: the file has its fields and not its name.
fn inner_fields(code: &str) -> String {
    let kind = code.split_once(": ").map_or("", |(_, kind)| kind.trim_end_matches(','));
    if kind.starts_with("Map") { "further fields".to_owned() } else { format!("the fields of `{kind}`") }
}

/// The name of a field or of a variant, as it is in a file.
fn member(code: &str, is_variant: bool) -> Option<String> {
    if is_variant {
        let name: String = code.chars().take_while(|letter| letter.is_alphanumeric()).collect();
        let is_name = name.starts_with(|letter: char| letter.is_uppercase());
        let word = code.split_once(" = \"").and_then(|(_, word)| word.split('"').next());
        return is_name.then(|| word.map_or_else(|| snake_case(&name), str::to_owned));
    }
    let name = code.strip_prefix("pub ").unwrap_or(code).split_once(':')?.0;
    let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    is_name.then(|| name.to_owned())
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// A comment without links, for a cell of a table.
fn told(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    if text == "See [`FORMAT_VERSION`]" {
        return "The version of the format".to_owned();
    }
    text.replace("[`", "`")
        .replace("`]", "`")
        .replace("Self::", "")
        .replace("crate::", "")
        .replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_current() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let committed = fs::read_to_string(root.join(PAGE)).unwrap();
        assert!(markdown(root).unwrap() == committed, "{PAGE} is not current: run `cargo xtask gen`");
    }

    #[test]
    fn a_type_becomes_a_table() {
        let source = "/// A thing.\npub struct Thing {\n    /// How many\n    /// there are, see [`Other`].\n    ///\n    /// More.\n    \
                      pub n_items: usize,\n    /// When.\n    #[serde(default, skip_serializing_if = \"Option::is_none\")]\n    \
                      pub when: Option<u64>,\n    /// Its speed.\n    \
                      #[serde(flatten)]\n    pub pace: Pace,\n}\npub enum Kind {\n    /// One.\n    BigOne {\n        /// Its size.\n        size: u8,\n    },\n}\n";
        assert_eq!(
            table("Thing", source).unwrap(),
            "\n### Thing\n\n| field | |\n|---|---|\n| `n_items` | How many there are, see `Other` |\n| `when`? | When |\n| the fields of `Pace` | Its speed |\n"
        );
        assert_eq!(
            table("Kind", source).unwrap(),
            "\n### Kind\n\n| value | |\n|---|---|\n| `big_one` | One |\n| · `size` | Its size |\n"
        );
        assert!(table("Other", source).is_err());
        let named = "named_enum! {\n    /// A lamp.\n    pub enum Lamp {\n        /// Lit.\n        On = \"on_now\",\n    }\n}\n";
        let expect = "\n### Lamp\n\n| value | |\n|---|---|\n| `on_now` | Lit |\n";
        assert_eq!(table("Lamp", named).unwrap(), expect);
    }
}
