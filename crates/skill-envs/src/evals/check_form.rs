//! Checks as files have them: sentences, and objects of this program, of eval-magic and of `claude plugin eval`.

use super::check::{Check, CommandCheck, FileIs, Pattern, TextOf};
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time of a command that names none.
const COMMAND_SECONDS: f64 = 60.0;
/// The most that a file may ask for.
const MAX_COMMAND_SECONDS: f64 = 600.0;
/// The largest regular expression, compiled.
const MAX_REGEX_BYTES: usize = 1 << 20;
/// The fields that decide a check of any type.
const FIELDS: [&str; 44] = [
    "type",
    "kind",
    "text",
    "expectation",
    "assertion",
    "rubric",
    "criteria",
    "command",
    "matrix",
    "setup_files",
    "files",
    "restore",
    "env",
    "exit_code",
    "expect_exit_code",
    "stdout",
    "expect_stdout",
    "stdout_contains",
    "stdout_matches",
    "timeout_s",
    "timeout",
    "path",
    "glob",
    "file",
    "contains",
    "not_contains",
    "matches",
    "pattern",
    "equals",
    "exists",
    "flags",
    "match",
    "target",
    "before",
    "after",
    "check",
    "tool",
    "input_match",
    "input",
    "min",
    "max",
    "tokens",
    "max_tokens",
    "seconds",
];
/// Those of limits of a difference.
const DIFF_FIELDS: [&str; 4] = ["max_files", "max_files_touched", "max_lines", "max_lines_changed"];
/// Fields that describe a check, or say how other programs grade it.
const NOTES: [&str; 18] = [
    "id",
    "name",
    "title",
    "description",
    "note",
    "notes",
    "comment",
    "samples",
    "votes",
    "model",
    "weight",
    "tags",
    "category",
    "severity",
    "critical",
    "guard",
    "arm",
    "focus",
];
/// Ends of a text as JavaScript has to write them.
const ENDS: [(&str, &str); 2] = [("(?<![\\s\\S])", "\\A"), ("(?![\\s\\S])", "\\z")];

/// A check, or what is wrong with it as the end of "the check ...".
pub(super) fn check(value: &Value) -> Result<Check, String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => {
            Ok(Check::Expectation { text: text.trim().to_owned() })
        }
        Value::Object(fields) => Fields(fields).check(),
        _ => Err("is neither a sentence nor an object".to_owned()),
    }
}

/// A text that has to be found as it is.
pub(super) fn literal(text: &str, is_absent: bool) -> Result<Pattern, String> {
    pattern(&regex::escape(text), "", is_absent).map(|pattern| Pattern { source: text.to_owned(), ..pattern })
}

/// A regular expression; `flags` are those of JavaScript.
pub(super) fn pattern(source: &str, flags: &str, is_absent: bool) -> Result<Pattern, String> {
    let translated = ENDS.iter().fold(source.to_owned(), |text, (from, to)| text.replace(from, to));
    let regex: Regex = RegexBuilder::new(&translated)
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('s'))
        .size_limit(MAX_REGEX_BYTES)
        .build()
        .map_err(|error| format!("has a pattern that cannot be used: {error}"))?;
    Ok(Pattern { source: source.to_owned(), is_absent, count: None, regex })
}

struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    /// The first of these fields that is there, with its name; null is none.
    fn first<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &Value)> {
        let there = |name: &&'n str| Some((*name, self.0.get(*name).filter(|value| !value.is_null())?));
        names.iter().find_map(there)
    }

    /// A text; a blank one is none.
    fn text(&self, names: &[&str]) -> Result<Option<&str>, String> {
        let Some((name, value)) = self.first(names) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| format!("has a `{name}` that is not a text"))?;
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }

    fn number(&self, names: &[&str]) -> Result<Option<f64>, String> {
        let Some((name, value)) = self.first(names) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| format!("has a `{name}` that is not a number"))
    }

    /// Refuses a field that no type of check has: what it asks for would not be checked.
    fn refuse_unknown(&self) -> Result<(), String> {
        let is_known =
            |name: &str| FIELDS.contains(&name) || DIFF_FIELDS.contains(&name) || NOTES.contains(&name);
        match self.0.keys().find(|name| !is_known(name)) {
            Some(name) => Err(format!("has the field `{name}`, which no check has")),
            None => Ok(()),
        }
    }

    fn required(&self, names: &[&str]) -> Result<&str, String> {
        self.text(names)?
            .ok_or_else(|| format!("has no text in `{}`", names.first().copied().unwrap_or_default()))
    }

    /// A list of paths inside of the project.
    fn paths(&self, name: &str) -> Result<Vec<String>, String> {
        let Some(value) = self.0.get(name) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| format!("has a `{name}` that is not a list of paths"))?;
        let path = |value: &Value| {
            let path = value.as_str().ok_or_else(|| format!("has a `{name}` that is not a list of paths"))?;
            super::fixture::check_path(path)?;
            Ok(path.to_owned())
        };
        list.iter().map(path).collect()
    }

    fn count(&self, names: &[&str]) -> Result<Option<usize>, String> {
        let Some((name, value)) = self.first(names) else { return Ok(None) };
        let n = value.as_u64().and_then(|n| usize::try_from(n).ok());
        n.map(Some).ok_or_else(|| format!("has a `{name}` that is not a number from 0"))
    }

    fn check(&self) -> Result<Check, String> {
        let kind = self.text(&["type", "kind"])?.unwrap_or("expectation");
        if matches!(kind, "skill_invocation" | "skill_used" | "skill_invoked") {
            return Ok(Check::Activation { text: "the skill is loaded".to_owned() });
        }
        match kind {
            "expectation" | "assertion" => Ok(Check::Expectation {
                text: self.required(&["text", "expectation", "assertion"])?.trim().to_owned(),
            }),
            "llm_judge" | "llm" | "rubric" => Ok(Check::Expectation {
                text: self.required(&["rubric", "text", "criteria"])?.trim().to_owned(),
            }),
            "command" | "command_check" => self.command(),
            "file" | "file_exists" => self.file(),
            "reply" | "message" => self.reply(),
            "regex" => self.regex(),
            "transcript_check" => self.transcript(),
            "tool" | "tool_used" => self.tool(),
            "tool_order" => {
                let name = |field: &'static str| pattern(&format!("^(?:{})$", self.required(&[field])?), "", false);
                Ok(Check::ToolOrder { before: name("before")?, after: name("after")? })
            }
            "diff" | "diff_scope" => {
                let max_files = self.count(&["max_files", "max_files_touched"])?;
                let max_lines = self.count(&["max_lines", "max_lines_changed"])?;
                if max_files.is_none() && max_lines.is_none() {
                    return Err("limits neither files nor lines".to_owned());
                }
                Ok(Check::Diff { max_files, max_lines })
            }
            "limit" => {
                let tokens = self.count(&["tokens", "max_tokens"])?.map(|n| n as u64);
                let seconds = self.number(&["seconds"])?;
                if seconds.is_some_and(|n| n <= 0.0) {
                    return Err("has `seconds` that are not above 0".to_owned());
                }
                if tokens.is_none() && seconds.is_none() {
                    return Err("limits neither `tokens` nor `seconds`".to_owned());
                }
                Ok(Check::Limit { tokens, seconds })
            }
            other => Err(format!(
                "is of the type {other:?}, which is not known; known are expectation, llm_judge, command, file, reply, \
                 regex, transcript_check, tool, tool_order, diff, limit"
            )),
        }
        .and_then(|check| self.refuse_unknown().map(|()| check))
    }

    fn command(&self) -> Result<Check, String> {
        let command = match self.0.get("command") {
            Some(Value::String(line)) if !line.trim().is_empty() => {
                vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()]
            }
            Some(Value::Array(words)) if !words.is_empty() => words
                .iter()
                .map(|word| {
                    word.as_str()
                        .map(str::to_owned)
                        .ok_or("has a `command` whose list holds a value that is not a string")
                })
                .collect::<Result<_, _>>()?,
            _ => return Err("has no `command`".to_owned()),
        };
        if self.0.contains_key("matrix") {
            return Err("has a `matrix`, which is not supported: write one check for each row".to_owned());
        }
        let texts = |name: &str| -> Result<BTreeMap<String, String>, String> {
            let Some(value) = self.0.get(name) else { return Ok(BTreeMap::new()) };
            let fields =
                value.as_object().ok_or_else(|| format!("has a `{name}` that is not an object of texts"))?;
            let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
            fields
                .iter()
                .map(text)
                .collect::<Option<_>>()
                .ok_or_else(|| format!("has a `{name}` that is not an object of texts"))
        };
        let code = ["exit_code", "expect_exit_code"].iter().find_map(|name| self.0.get(*name));
        let exit_code = match code {
            None => 0,
            Some(value) => value
                .as_i64()
                .and_then(|code| i32::try_from(code).ok())
                .ok_or("has an `exit_code` that is not a number")?,
        };
        let stdout = match (
            self.text(&["stdout", "stdout_contains"])?,
            // That of eval-magic is a regular expression.
            self.text(&["stdout_matches", "expect_stdout"])?,
        ) {
            (Some(text), _) => Some(literal(text, false)?),
            (None, Some(source)) => Some(pattern(source, "m", false)?),
            (None, None) => None,
        };
        let seconds = self.number(&["timeout_s", "timeout"])?.unwrap_or(COMMAND_SECONDS);
        if !(seconds > 0.0 && seconds <= MAX_COMMAND_SECONDS) {
            return Err(format!("has a `timeout_s` that is not between 0 and {MAX_COMMAND_SECONDS}"));
        }
        let mut files = BTreeMap::new();
        for (path, text) in texts("setup_files")?.into_iter().chain(texts("files")?) {
            super::fixture::check_path(&path)?;
            files.insert(super::fixture::without_dots(&path), text);
        }
        Ok(Check::Command(CommandCheck {
            command,
            files,
            restore: self.paths("restore")?,
            env: texts("env")?,
            exit_code,
            stdout,
            timeout: Duration::from_secs_f64(seconds),
        }))
    }

    fn file(&self) -> Result<Check, String> {
        let path = self.required(&["path", "glob", "file"])?;
        super::fixture::check_path(path)?;
        let is = if let Some(text) = self.text(&["contains"])? {
            FileIs::Text(literal(text, false)?)
        } else if let Some(text) = self.text(&["not_contains"])? {
            FileIs::Text(literal(text, true)?)
        } else if let Some(source) = self.text(&["matches", "pattern"])? {
            FileIs::Text(pattern(source, "m", false)?)
        } else if let Some((_, value)) = self.first(&["equals"]) {
            // An empty text is one too.
            let text = value.as_str().ok_or("has an `equals` that is not a text")?;
            FileIs::Equal(text.to_owned())
        } else {
            match self.first(&["exists"]) {
                Some((_, Value::Bool(false))) => FileIs::Absent,
                Some((_, Value::Bool(true))) if self.text(&["type", "kind"])? != Some("file_exists") => {
                    FileIs::There
                }
                Some((_, Value::Bool(true))) => FileIs::Made,
                Some(_) => return Err("has an `exists` that is neither true nor false".to_owned()),
                None if self.text(&["type", "kind"])? == Some("file_exists") => FileIs::Made,
                None => FileIs::There,
            }
        };
        Ok(Check::File { path: path.to_owned(), is })
    }

    fn reply(&self) -> Result<Check, String> {
        let pattern = match (self.text(&["contains"])?, self.text(&["not_contains"])?) {
            (Some(text), _) => literal(text, false)?,
            (None, Some(text)) => literal(text, true)?,
            (None, None) => pattern(self.required(&["matches", "pattern"])?, "m", false)?,
        };
        Ok(Check::Text { of: TextOf::Reply, pattern })
    }

    /// A grader of `claude plugin eval`: of the last message, the run, or a file.
    fn regex(&self) -> Result<Check, String> {
        let (is_absent, count) = match self.text(&["match"])? {
            None | Some("contains") => (false, None),
            Some("not_contains" | "absent") => (true, None),
            Some(how) => match how.strip_prefix("count:").and_then(|n| n.trim().parse::<usize>().ok()) {
                Some(count) => (false, Some(count)),
                None => {
                    return Err(format!(
                        "has the `match` {how:?}; known are contains, not_contains, count:N"
                    ));
                }
            },
        };
        let flags = self.text(&["flags"])?.unwrap_or_default();
        let pattern = Pattern { count, ..pattern(self.required(&["pattern"])?, flags, is_absent)? };
        match self.first(&["target"]).map(|(_, target)| target) {
            None => Ok(Check::Text { of: TextOf::Reply, pattern }),
            Some(Value::String(target)) if target == "last_message" => {
                Ok(Check::Text { of: TextOf::Reply, pattern })
            }
            Some(Value::String(target)) if target == "trace" => {
                Ok(Check::Text { of: TextOf::Trace, pattern })
            }
            Some(Value::String(target)) if target == "files" => {
                Ok(Check::Text { of: TextOf::NewFiles, pattern })
            }
            Some(Value::Object(target)) if target.get("source").and_then(Value::as_str) == Some("file") => {
                let path =
                    target.get("path").and_then(Value::as_str).ok_or("has a `target` without a `path`")?;
                super::fixture::check_path(path)?;
                Ok(Check::File { path: path.to_owned(), is: FileIs::Text(pattern) })
            }
            Some(_) => Err("has a `target` that is not last_message, trace, files or a file".to_owned()),
        }
    }

    fn transcript(&self) -> Result<Check, String> {
        let source = self.required(&["pattern"])?;
        match self.required(&["check"])? {
            "assistant_message_matches" => {
                Ok(Check::Text { of: TextOf::Reply, pattern: pattern(source, "m", false)? })
            }
            "tool_invocation_matches" => Ok(Check::Tool {
                name: pattern("", "", false)?,
                input: Some(pattern(source, "", false)?),
                min: 1,
                max: None,
            }),
            other => Err(format!("has the `check` {other:?}, which is not known")),
        }
    }

    fn tool(&self) -> Result<Check, String> {
        let name = self.required(&["tool", "name"])?;
        let input =
            self.text(&["input_match", "input"])?.map(|source| pattern(source, "", false)).transpose()?;
        let max = self.count(&["max"])?;
        // Which skill it is about is known by its arguments alone.
        let is_of_both_arms = self.text(&["arm"])? == Some("both");
        if name == "Skill" && !is_of_both_arms {
            let text = input
                .map_or_else(|| "the skill is loaded".to_owned(), |input| format!("loads {}", input.source));
            return Ok(Check::Activation { text });
        }
        let min = self.count(&["min"])?.unwrap_or(usize::from(max != Some(0)));
        Ok(Check::Tool { name: pattern(&format!("^(?:{name})$"), "", false)?, input, min, max })
    }
}

/// Whether a check guards, as a case has it.
pub(super) fn is_guard(value: &Value) -> Result<bool, String> {
    match value.get("guard") {
        None => Ok(false),
        Some(value) => {
            value.as_bool().ok_or_else(|| "has a `guard` that is neither true nor false".to_owned())
        }
    }
}

/// Whether a check is shown and decides nothing: one of `claude plugin eval` that is made with the skill only.
pub(super) fn is_shown_only(value: &Value) -> Result<bool, String> {
    match value.get("arm").map(Value::as_str) {
        None | Some(Some("both")) => Ok(false),
        Some(Some("with-only")) => Ok(true),
        Some(_) => Err("has an `arm` that is neither \"with-only\" nor \"both\"".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn is(value: Value, words: &str) {
        assert_eq!(check(&value).map(|check| check.text()), Ok(words.to_owned()), "{value}");
    }

    #[test]
    fn checks_of_all_forms_are_read() {
        is(json!("The total is right"), "The total is right");
        is(json!({"type": "llm_judge", "rubric": "Is it polite?"}), "Is it polite?");
        is(json!({"id": "a", "text": "It is short"}), "It is short");
        is(
            json!({"type": "command_check", "command": ["pytest", "-q"], "expect_exit_code": 1, "expect_stdout": "1 failed"}),
            "`pytest -q` exits with 1 and prints \"1 failed\"",
        );
        is(json!({"type": "file", "path": "a.md", "contains": "x"}), "a.md has \"x\"");
        is(json!({"type": "file", "path": "a.md", "exists": false}), "a.md does not exist");
        is(json!({"type": "file_exists", "path": "out/*.pdf"}), "out/*.pdf is made");
        is(
            json!({"type": "transcript_check", "check": "assistant_message_matches", "pattern": "done"}),
            "the reply has \"done\"",
        );
        is(json!({"type": "diff_scope", "max_files_touched": 2}), "at most 2 files are changed");
        is(
            json!({"type": "tool_used", "tool": "Edit", "min": 0, "max": 0}),
            "tool \"^(?:Edit)$\" is called at least 0 and at most 0 times",
        );
        is(json!({"type": "tool_used", "tool": "Skill"}), "the skill is loaded");
        is(
            json!({"type": "tool_used", "tool": "Skill", "arm": "both", "min": 0, "max": 0}),
            "tool \"^(?:Skill)$\" is called at least 0 and at most 0 times",
        );
        is(
            json!({"type": "tool_order", "before": "Read", "after": "Edit"}),
            "tool \"^(?:Read)$\" is called before \"^(?:Edit)$\"",
        );
        is(
            json!({"type": "regex", "pattern": "\\.md$", "target": "files", "match": "count:2", "flags": "m"}),
            "the list of new files has \"\\\\.md$\" 2 times",
        );
        is(json!({"type": "llm", "rubric": "Is it polite?", "focus": "files", "weight": 2}), "Is it polite?");
        is(
            json!({"type": "regex", "pattern": "(?<![\\s\\S])a(?![\\s\\S])", "target": {"source": "file", "path": "a"}, "match": "not_contains"}),
            "a does not have \"(?<![\\\\s\\\\S])a(?![\\\\s\\\\S])\"",
        );
        is(
            json!({"type": "limit", "tokens": 5, "seconds": 2.5}),
            "the run takes at most 5 tokens and 2.5 seconds",
        );
    }

    #[test]
    fn files_of_a_command_have_plain_names() {
        let value = json!({"type": "command", "command": "a", "setup_files": {"./a/./b.txt": "x"}});
        let Ok(Check::Command(command)) = check(&value) else { panic!("{value}") };
        assert_eq!(command.files.keys().collect::<Vec<_>>(), ["a/b.txt"]);
    }

    #[test]
    fn what_is_wrong_with_a_check_is_named() {
        for (value, what) in [
            (json!(3), "neither"),
            (json!({"type": "baseline"}), "\"baseline\""),
            (json!({"type": "tool_order", "before": "Read"}), "`after`"),
            (json!({"type": "regex", "pattern": "a", "match": "twice"}), "twice"),
            (json!({"type": "regex", "pattern": "a", "target": "home"}), "`target`"),
            (json!({"type": "command"}), "`command`"),
            (json!({"type": "command", "command": "a", "matrix": {}}), "`matrix`"),
            (json!({"type": "command", "command": "a", "timeout_s": 9999}), "`timeout_s`"),
            (json!({"type": "command", "command": "a", "setup_files": {"../x": ""}}), "../x"),
            (json!({"type": "command", "command": "a", "restore": "tests"}), "`restore`"),
            (json!({"type": "command", "command": "a", "restore": ["/etc"]}), "/etc"),
            (json!({"type": "file", "path": "/etc/passwd"}), "/etc/passwd"),
            (json!({"type": "regex", "pattern": "(?=a)"}), "pattern"),
            (json!({"type": "diff"}), "neither files nor lines"),
            (json!({"type": "llm"}), "`rubric`"),
            (json!({"type": "file", "path": "a", "contains": ["x"]}), "`contains`"),
            (json!({"type": "file", "path": "a", "equals": 3}), "`equals`"),
            (json!({"type": "file", "path": "a", "absent": true}), "`absent`"),
            (json!({"type": "reply", "not_contains": 3}), "`not_contains`"),
            (json!({"type": "command", "command": "a", "stdout": 42}), "`stdout`"),
            (json!({"type": "command", "command": "a", "timeout_s": "5"}), "`timeout_s`"),
            (json!({"type": "limit", "tokens": 5, "seconds": "5"}), "`seconds`"),
            (json!({"type": 3, "text": "a"}), "`type`"),
            (json!({"text": "a", "texts": "b"}), "`texts`"),
        ] {
            let error = check(&value).unwrap_err();
            assert!(error.contains(what), "{value}: {error}");
        }
    }
}
