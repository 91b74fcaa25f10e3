//! Rewriting a skill as a whole: the ways of updating, what the optimizer proposes in each, and how the protected
//! regions survive.
//!
//! In the rewriting modes a proposal is no edit of a line. It travels as an [`Edit`] all the same, so that it is merged,
//! ranked and recorded like one: its operation is [`SUGGESTION`] or [`REWRITE`], its target is a title, and its content
//! is an instruction or a whole skill. The editor knows neither operation and would skip it.

use crate::edit::{Edit, EditOp, Patch, has_control_characters};
use crate::json::{Extracted, PatchReply, extract, read_object, read_patch};
use crate::package::{edit_main, main_file};
use crate::region::{RegionKind, front_matter_end, protected_regions, without_markers};
use crate::skill::SkillDoc;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// The operation of a suggestion.
pub const SUGGESTION: &str = "suggestion";
/// The operation of a whole new skill.
pub const REWRITE: &str = "rewrite";

crate::named_enum! {
    /// How a candidate is made of what the analysts propose.
    #[derive(Default)]
    pub enum UpdateMode {
        /// They propose edits, which are applied without a model.
        #[default]
        Patch = "patch",
        /// They make suggestions, by which the optimizer rewrites the skill.
        RewriteFromSuggestions = "rewrite_from_suggestions",
        /// Each analyst rewrites the whole skill, and these versions are merged.
        FullRewriteMinibatch = "full_rewrite_minibatch",
    }
}

impl UpdateMode {
    /// What a configuration of the reference means by a name; it knows several for each, in any case.
    pub fn from_reference(name: &str) -> Option<Self> {
        match name.trim().to_lowercase().as_str() {
            "" | "patch" | "edits" => Some(Self::Patch),
            "rewrite" | "rewrite_from_suggestions" | "suggestions" | "rewrite_suggestions" => {
                Some(Self::RewriteFromSuggestions)
            }
            "full_rewrite"
            | "full_rewrite_minibatch"
            | "minibatch_full_rewrite"
            | "skill_rewrite_minibatch" => Some(Self::FullRewriteMinibatch),
            _ => None,
        }
    }

    /// The key of a reply that holds what is proposed.
    pub fn key(self) -> &'static str {
        match self {
            Self::Patch => "edits",
            Self::RewriteFromSuggestions => "revise_suggestions",
            Self::FullRewriteMinibatch => "skill_candidates",
        }
    }

    /// Whether what is proposed counts against the edit budget; a whole skill cannot be counted in edits.
    pub fn has_budget(self) -> bool {
        match self {
            Self::Patch | Self::RewriteFromSuggestions => true,
            Self::FullRewriteMinibatch => false,
        }
    }

    /// Reads an analyst's or merger's reply in this mode.
    ///
    /// What has no content is left out with a note. Of a reply that was cut off, what is whole stays.
    pub fn read(self, text: &str) -> PatchReply {
        let (op, content_names): (&str, &[&str]) = match self {
            Self::Patch => return read_patch(text),
            Self::RewriteFromSuggestions => (SUGGESTION, &["instruction", "content", "suggestion"]),
            Self::FullRewriteMinibatch => (REWRITE, &["new_skill", "skill", "content"]),
        };
        let key = self.key();
        let Some(Extracted { value, repairs, truncated }) =
            extract(text, |value| list_of(value, key).is_some())
        else {
            let notes = vec![format!("the reply holds no object with `{key}`")];
            return PatchReply { notes, ..PatchReply::default() };
        };
        let mut notes: Vec<String> = repairs.iter().map(ToString::to_string).collect();
        let items = list_of(&value, key).map(Vec::as_slice).unwrap_or_default();
        let mut edits = Vec::new();
        for (number, item) in (1..).zip(items) {
            match proposal(item, op, content_names) {
                Some(edit) if has_control_characters(&edit.content) => {
                    notes
                        .push(format!("entry {number} of `{key}` holds control characters, and was dropped"));
                }
                Some(edit) => edits.push(edit),
                None => notes.push(format!("entry {number} of `{key}` has no text, and was dropped")),
            }
        }
        if truncated && edits.is_empty() {
            // Nothing was whole, which is not the same as nothing to propose.
            return PatchReply { patch: None, notes, truncated, value: Some(value) };
        }
        let reasoning = [value.get("patch"), Some(&value)]
            .into_iter()
            .flatten()
            .find_map(|holder| holder.get("reasoning")?.as_str())
            .unwrap_or_default()
            .to_owned();
        let patch = Some(Patch { reasoning, edits, ranking_details: None });
        PatchReply { patch, notes, truncated, value: Some(value) }
    }
}

fn proposal(item: &Value, op: &str, content_names: &[&str]) -> Option<Edit> {
    let is_text = |text: &&str| !text.trim().is_empty();
    let text = |name: &str| item.get(name).and_then(Value::as_str).filter(is_text);
    // A suggestion may be a bare text.
    let bare = item.as_str().filter(|text| op == SUGGESTION && is_text(text));
    let content = content_names.iter().find_map(|name| text(name)).or(bare)?;
    let title = text("title").unwrap_or_default();
    let count = item.get("support_count").and_then(Value::as_u64);
    let support_count = count.and_then(|count| u32::try_from(count).ok());
    Some(Edit { support_count, ..Edit::new(EditOp::from(op), title, content) })
}

/// The list under a key, in the reply itself or in its patch.
fn list_of<'a>(value: &'a Value, key: &str) -> Option<&'a Vec<Value>> {
    [value.get("patch"), Some(value)].into_iter().flatten().find_map(|holder| holder.get(key)?.as_array())
}

/// The reply of the optimizer that rewrote a skill by suggestions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RewriteReply {
    /// The new skill, as it was written; `None` if the reply holds no whole one.
    pub new_skill: Option<String>,
    /// The optimizer's argument.
    pub reasoning: String,
    /// What it says that it changed.
    pub change_summary: Vec<String>,
    /// What was wrong with the reply, one sentence each.
    pub notes: Vec<String>,
}

impl RewriteReply {
    /// Reads `{"reasoning", "change_summary", "new_skill"}`; a part of a skill is not a skill.
    pub fn read(text: &str) -> Self {
        const NEW_SKILL: &str = "new_skill";
        let Some(Extracted { value, repairs, .. }) = read_object(text, NEW_SKILL) else {
            return Self { notes: vec!["the reply holds no whole skill".to_owned()], ..Self::default() };
        };
        let text_of = |value: &Value| value.as_str().map(str::to_owned);
        let new_skill = value.get(NEW_SKILL).and_then(text_of).filter(|skill| !skill.trim().is_empty());
        let mut notes: Vec<String> = repairs.iter().map(ToString::to_string).collect();
        if new_skill.is_none() {
            notes.push("the new skill is empty".to_owned());
        }
        let is_plain = new_skill.as_deref().is_none_or(|skill| !has_control_characters(skill));
        if !is_plain {
            notes.push("the new skill holds control characters, and was dropped".to_owned());
        }
        let new_skill = new_skill.filter(|_| is_plain);
        let change_summary = match value.get("change_summary") {
            Some(Value::Array(changes)) => changes.iter().filter_map(text_of).collect(),
            Some(Value::String(change)) => vec![change.clone()],
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
        };
        let reasoning = value.get("reasoning").and_then(text_of).unwrap_or_default();
        Self { new_skill, reasoning, change_summary, notes }
    }
}

/// A rewritten skill with the protected regions of the one that it takes the place of; `None` if the rewritten text
/// holds nothing else than regions.
///
/// What the rewritten text has of regions and markers goes, also front matter. The regions of the original come back to
/// the byte: front matter at the top, the others at the end, in their order. A rewrite that says what the original says
/// is the original, also if it ends in other white space. Of a package the `SKILL.md` alone is rewritten.
#[must_use]
pub fn with_regions_of(original: &SkillDoc, rewritten: &str) -> Option<SkillDoc> {
    let rewritten = SkillDoc::new(rewritten);
    let body = body_of(main_file(&rewritten));
    let body = body.trim_end();
    if body.trim().is_empty() {
        return None;
    }
    Some(edit_main(original, |main| {
        let joined = join(main.source_text(), body);
        if joined.trim_end() == main.source_text().trim_end() { main.clone() } else { SkillDoc::new(joined) }
    }))
}

/// The body between the front matter of the original and its other regions.
fn join(original: &str, body: &str) -> String {
    let mut above = String::new();
    let mut below = String::new();
    for (range, is_front_matter) in merged_regions(original) {
        let region = original.get(range.clone()).expect("regions are on character boundaries");
        if is_front_matter {
            // With the line ends and blank lines between the front matter and the body.
            let rest = original.get(range.end..).expect("regions are on character boundaries");
            let gap = rest.get(..rest.len() - rest.trim_start_matches(['\n', '\r']).len());
            above = [region, gap.filter(|gap| !gap.is_empty()).unwrap_or("\n")].concat();
        } else {
            below.push_str(&["\n", region, "\n"].concat());
        }
    }
    let mut body = body;
    loop {
        let text = [above.as_str(), body, "\n", below.as_str()].concat();
        // A rule between paragraphs that is first opens front matter if a region below holds another one.
        if !above.is_empty() || front_matter_end(&text).is_none() {
            return text;
        }
        body = body.split_once('\n').map_or("", |(_, rest)| rest).trim_start_matches(['\n', '\r']);
    }
}

/// The regions of a text in order, and whether each is front matter; those that overlap are one.
fn merged_regions(text: &str) -> Vec<(Range<usize>, bool)> {
    let mut merged: Vec<(Range<usize>, bool)> = Vec::new();
    for region in protected_regions(text) {
        match merged.last_mut() {
            Some((last, _)) if region.range.start < last.end => last.end = last.end.max(region.range.end),
            Some(_) | None => merged.push((region.range, region.kind == RegionKind::FrontMatter)),
        }
    }
    merged
}

/// A model's text without front matter, protected regions and markers.
fn body_of(rewritten: &str) -> Cow<'_, str> {
    let regions = merged_regions(rewritten);
    let plain = without_markers(rewritten);
    if regions.is_empty() && plain.len() == rewritten.len() {
        return Cow::Borrowed(rewritten);
    }
    let mut kept = String::new();
    let mut from = 0;
    for (range, _) in regions {
        kept.push_str(rewritten.get(from..range.start).expect("merged regions do not overlap"));
        from = range.end;
    }
    kept.push_str(rewritten.get(from..).expect("regions are on character boundaries"));
    let mut body = without_markers(&kept).trim_start_matches(['\n', '\r']).to_owned();
    // What stood below front matter can look like front matter in its turn.
    while let Some(end) = front_matter_end(&body) {
        body = body
            .get(end..)
            .expect("front matter ends on a character boundary")
            .trim_start_matches(['\n', '\r'])
            .to_owned();
    }
    Cow::Owned(body)
}

/// What a rewrite changes: each line that goes behind `- `, then each that comes behind `+ `.
///
/// A line that only moves is not among them.
pub fn changed_lines(before: &SkillDoc, after: &SkillDoc) -> Vec<String> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    let (before, after) = (before.source_text(), after.source_text());
    for line in after.lines() {
        *left.entry(line).or_default() += 1;
    }
    let mut gone = Vec::new();
    for line in before.lines() {
        match left.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            Some(_) | None => gone.push(line),
        }
    }
    let mut come = Vec::new();
    // From the end, since what stood before is in front as a rule.
    for line in after.lines().rev() {
        if let Some(count) = left.get_mut(line).filter(|count| **count > 0) {
            *count -= 1;
            come.push(line);
        }
    }
    let is_text = |line: &&&str| !line.trim().is_empty();
    let gone = gone.iter().filter(is_text).map(|line| format!("- {line}"));
    gone.chain(come.iter().rev().filter(is_text).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::expand;
    use proptest::prelude::*;

    #[track_caller]
    fn check(original: &str, rewritten: &str, expect: Option<&str>) {
        let written = with_regions_of(&SkillDoc::new(expand(original)), &expand(rewritten));
        let written = written.map(|skill| skill.source_text().to_owned());
        assert_eq!(written, expect.map(expand), "{original:?} rewritten as {rewritten:?}");
    }

    #[test]
    fn protected_regions_survive_a_rewrite() {
        check("# S\n- a\n", "# S\n- b", Some("# S\n- b\n"));
        check("# S\n- a\n", "# S\n- b\n\n\n", Some("# S\n- b\n"));
        check("", "# S", Some("# S\n"));
        check("a\n\n[S\ng\nS]\n", "b", Some("b\n\n[S\ng\nS]\n"));
        check("a\n\n[S\ng\nS]\n", "b\n\n[S\nother\nS]\n", Some("b\n\n[S\ng\nS]\n"));
        check("a\n\n[S\ng\nS]\n\n[A\n- n\nA]\n", "b [A c", Some("b  c\n\n[S\ng\nS]\n\n[A\n- n\nA]\n"));
        check("---\nname: x\n---\n\n# S\n", "# T\n", Some("---\nname: x\n---\n\n# T\n"));
        check("---\nname: x\n---\n# S\n", "---\nname: y\n---\n# T\n", Some("---\nname: x\n---\n# T\n"));
        check("# S\n", "---\nname: y\n---\n\n---\nname: z\n---\n# T\n", Some("# T\n"));
        check("[S 1 [A 2 S] 3 A] 4", "b", Some("b\n\n[S 1 [A 2 S] 3 A]\n"));
    }

    #[test]
    fn a_rewrite_that_says_nothing_is_none() {
        for nothing in ["", " \n", "[S\ng\nS]\n", "---\nname: y\n---\n", "[A A]"] {
            check("# S\n", nothing, None);
        }
    }

    #[test]
    fn a_rewrite_that_says_the_same_is_the_original() {
        check("# S\n- a", "# S\n- a\n\n", Some("# S\n- a"));
        check("# S\n\n[S\ng\nS]", "# S\n", Some("# S\n\n[S\ng\nS]"));
    }

    #[test]
    fn of_a_package_the_main_file_is_rewritten() {
        let files = "\n<!-- SKILL_FILE: references/dates.md -->\n# Dates\n";
        check(&format!("# S\n{files}"), "# T", Some(&format!("# T\n{files}")));
        check(&format!("# S\n{files}"), &format!("# T\n{files}- x\n"), Some(&format!("# T\n{files}")));
        check("# S\n", &format!("# T\n{files}"), Some("# T\n"));
    }

    #[test]
    fn what_changes() {
        for (before, after, expect) in [
            ("# S\n- a\n- b\n", "# S\n\n- b\n- c\n- c\n", &["- - a", "+ - c", "+ - c"][..]),
            ("a\nb\n", "b\na\n", &[]),
            ("", "x", &["+ x"]),
            ("a\na", "a", &["- a"]),
        ] {
            assert_eq!(changed_lines(&before.into(), &after.into()), expect, "{before:?} {after:?}");
        }
    }

    #[track_caller]
    fn check_read(mode: UpdateMode, text: &str, expect: Option<&[(&str, &str)]>) {
        let reply = mode.read(text);
        let found = reply
            .patch
            .map(|patch| patch.edits.into_iter().map(|edit| (edit.target, edit.content)).collect::<Vec<_>>());
        let owned = |edits: &[(&str, &str)]| -> Vec<(String, String)> {
            edits.iter().map(|(title, text)| ((*title).to_owned(), (*text).to_owned())).collect()
        };
        assert_eq!(found, expect.map(owned), "{text}");
    }

    #[test]
    fn replies_are_read_leniently() {
        use UpdateMode::{FullRewriteMinibatch as Full, RewriteFromSuggestions as Suggest};
        check_read(
            Suggest,
            r#"{"patch": {"revise_suggestions": [{"title": "t", "instruction": "i"}, {"title": "u"}, "j", 3]}}"#,
            Some(&[("t", "i"), ("", "j")]),
        );
        check_read(Suggest, r#"{"revise_suggestions": []}"#, Some(&[]));
        check_read(Suggest, r#"{"edits": []}"#, None);
        check_read(
            Suggest,
            r#"{"revise_suggestions": [{"instruction": "i"}, {"instruction": "cut"#,
            Some(&[("", "i")]),
        );
        check_read(
            Full,
            r##"{"skill_candidates": [{"title": null, "new_skill": "# S"}, {"new_skill": " "}]}"##,
            Some(&[("", "# S")]),
        );
        check_read(Full, r##"{"skill_candidates": [{"title": "t", "new_skill": "# S\n- a half"##, None);
        check_read(Full, r##"{"skill_candidates": [{"new_skill": "# S\b 1"}]}"##, Some(&[]));
        check_read(
            Full,
            r##"{"skill_candidates": [{"new_skill": "# S"}, {"new_skill": "# T"##,
            Some(&[("", "# S")]),
        );
        check_read(Full, "nothing", None);
    }

    #[track_caller]
    fn check_rewrite(text: &str, expect: Option<(&str, &[&str])>) {
        let reply = RewriteReply::read(text);
        let found = reply
            .new_skill
            .as_deref()
            .map(|skill| (skill, reply.change_summary.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(
            found,
            expect.map(|(skill, summary)| (skill, summary.to_vec())),
            "{text}: {:?}",
            reply.notes
        );
        assert_eq!(reply.notes.is_empty(), expect.is_some(), "{text}: {:?}", reply.notes);
    }

    #[test]
    fn rewrites_are_read_leniently() {
        check_rewrite(
            r##"{"reasoning": "r", "change_summary": ["a", 1, "b"], "new_skill": "# S"}"##,
            Some(("# S", &["a", "b"])),
        );
        check_rewrite(r##"{"new_skill": "# S", "change_summary": "a"}"##, Some(("# S", &["a"])));
        check_rewrite(r##"{"new_skill": "# S"}"##, Some(("# S", &[])));
        check_rewrite(r#"{"new_skill": " "}"#, None);
        check_rewrite(r#"{"new_skill": null}"#, None);
        check_rewrite(r##"{"new_skill": "# S\n- a half"##, None);
        check_rewrite("# S", None);
    }

    proptest! {
        #[test]
        fn any_text_keeps_the_regions(
            original in "(a|\n|\\[S|S\\]|\\[A|A\\]|---\n|-){0,20}",
            rewritten in "(b|\n|\\[S|S\\]|\\[A|A\\]|---\n|-|<!-- ){0,20}",
        ) {
            let original = SkillDoc::new(expand(&original));
            let texts = |skill: &SkillDoc| -> Vec<String> {
                let text = skill.source_text();
                merged_regions(text).into_iter().map(|(range, _)| text.get(range).unwrap_or_default().to_owned()).collect()
            };
            let Some(written) = with_regions_of(&original, &expand(&rewritten)) else { return Ok(()) };
            prop_assert_eq!(texts(&written), texts(&original));
        }
    }
}
