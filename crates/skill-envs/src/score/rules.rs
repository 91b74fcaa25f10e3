//! Rules that an answer must keep: texts, patterns, sections, lengths, tools.

use super::text::collapsed;
use super::{Score, share};
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use skill_core::text::composed;

/// The most bytes that a compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// One rule.
#[derive(Debug, Clone)]
pub struct Rule {
    check: Check,
    /// The rule as it was written.
    source: Value,
}

#[derive(Debug, Clone)]
enum Check {
    Contains(String),
    NotContains(String),
    Matches(Regex),
    NotMatches(Regex),
    Section(String),
    MinChars(usize),
    MaxChars(usize),
    MinWords(usize),
    MaxWords(usize),
    ToolCalled(String),
    ToolNotCalled(String),
}

/// The names that a rule may have.
const NAMES: [&str; 11] = [
    "contains",
    "not_contains",
    "matches",
    "not_matches",
    "section",
    "min_chars",
    "max_chars",
    "min_words",
    "max_words",
    "tool_called",
    "tool_not_called",
];

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RuleError {
    message: String,
}

/// What became of the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleVerdict {
    /// `hard` is 1 if all rules are kept, `soft` the share of those that are.
    pub score: Score,
    /// The rules that are broken, in words.
    pub broken: Vec<String>,
}

impl Rule {
    /// Reads a rule: an object of one member, such as `{"contains": "Berlin"}` or `{"max_words": 100}`.
    ///
    /// | name | value | kept if |
    /// |---|---|---|
    /// | `contains`, `not_contains` | text | the answer has the text, or has it not; case and white space do not count |
    /// | `matches`, `not_matches` | pattern | the pattern is found in the answer, or is not |
    /// | `section` | heading | a Markdown heading or a line `Heading:` with this text has something below it |
    /// | `min_chars`, `max_chars` | number | the answer has at least, or at most, so many characters |
    /// | `min_words`, `max_words` | number | the same with words |
    /// | `tool_called`, `tool_not_called` | name | the reply calls the tool, or does not |
    ///
    /// # Errors
    ///
    /// No object of one known member, a value of the wrong type, or a pattern that is none.
    pub fn parse(value: &Value) -> Result<Self, RuleError> {
        let error = |message: String| RuleError { message };
        let members = value.as_object().map(Map::iter).map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        let [(name, given)] = members.as_slice() else {
            let message =
                format!("{value} is not a rule; a rule has one member, such as {{ contains = \"..\" }}");
            return Err(error(message));
        };
        let text = || {
            let text = given.as_str().map(str::trim).filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| error(format!("`{name}` takes a text, not {given}")))
        };
        let number = || {
            let number = given.as_u64().and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| error(format!("`{name}` takes a whole number, not {given}")))
        };
        let pattern =
            || pattern(&text()?).map_err(|fault| error(format!("`{name}` takes a pattern: {fault}")));
        let check = match name.as_str() {
            "contains" => Check::Contains(plain(&text()?)),
            "not_contains" => Check::NotContains(plain(&text()?)),
            "matches" => Check::Matches(pattern()?),
            "not_matches" => Check::NotMatches(pattern()?),
            "section" => Check::Section(text()?),
            "min_chars" => Check::MinChars(number()?),
            "max_chars" => Check::MaxChars(number()?),
            "min_words" => Check::MinWords(number()?),
            "max_words" => Check::MaxWords(number()?),
            "tool_called" => Check::ToolCalled(text()?),
            "tool_not_called" => Check::ToolNotCalled(text()?),
            unknown => {
                let message = format!("there is no rule `{unknown}`; the rules are {}", NAMES.join(", "));
                return Err(error(message));
            }
        };
        Ok(Self { check, source: value.clone() })
    }

    /// The rule as it was written.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Whether the rule is about a tool.
    pub(crate) fn needs_tools(&self) -> bool {
        matches!(self.check, Check::ToolCalled(_))
    }

    /// What is wrong with the answer; `None` if the rule is kept.
    fn fault(&self, answer: &str, tools_called: &[&str]) -> Option<String> {
        let n_chars = || answer.trim().chars().count();
        let n_words = || answer.split_whitespace().count();
        let fault = |is_kept: bool, message: String| (!is_kept).then_some(message);
        match &self.check {
            Check::Contains(text) => {
                fault(plain(answer).contains(text), format!("it does not contain {text:?}"))
            }
            Check::NotContains(text) => fault(!plain(answer).contains(text), format!("it contains {text:?}")),
            Check::Matches(pattern) => {
                fault(pattern.is_match(answer), format!("nothing in it matches `{pattern}`"))
            }
            Check::NotMatches(pattern) => {
                fault(!pattern.is_match(answer), format!("something in it matches `{pattern}`"))
            }
            Check::Section(name) => {
                fault(has_section(answer, name), format!("it has no section {name:?} with something in it"))
            }
            Check::MinChars(least) => {
                fault(n_chars() >= *least, format!("it has {} characters, fewer than {least}", n_chars()))
            }
            Check::MaxChars(most) => {
                fault(n_chars() <= *most, format!("it has {} characters, more than {most}", n_chars()))
            }
            Check::MinWords(least) => {
                fault(n_words() >= *least, format!("it has {} words, fewer than {least}", n_words()))
            }
            Check::MaxWords(most) => {
                fault(n_words() <= *most, format!("it has {} words, more than {most}", n_words()))
            }
            Check::ToolCalled(tool) => {
                fault(tools_called.contains(&tool.as_str()), format!("the tool `{tool}` is not called"))
            }
            Check::ToolNotCalled(tool) => {
                fault(!tools_called.contains(&tool.as_str()), format!("the tool `{tool}` is called"))
            }
        }
    }
}

/// Holds an answer against rules: `hard` is 1 if all are kept, `soft` the share of those that are.
///
/// ```
/// use serde_json::json;
/// use skill_envs::score::{Rule, apply_rules};
///
/// let rules = [json!({"contains": "refund"}), json!({"max_words": 5})];
/// let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule)).collect::<Result<_, _>>()?;
/// let verdict = apply_rules(&rules, "We shall refund all that you have paid.", &[]);
/// assert_eq!((verdict.score.hard, verdict.score.soft), (0.0, 0.5));
/// assert_eq!(verdict.broken, ["it has 8 words, more than 5"]);
/// # Ok::<(), skill_envs::score::RuleError>(())
/// ```
pub fn apply_rules(rules: &[Rule], answer: &str, tools_called: &[&str]) -> RuleVerdict {
    let broken: Vec<String> = rules.iter().filter_map(|rule| rule.fault(answer, tools_called)).collect();
    let n_kept = rules.len() - broken.len();
    let score = match broken.is_empty() {
        true if !rules.is_empty() => Score::RIGHT,
        _ => Score { hard: 0.0, soft: share(n_kept, rules.len()) },
    };
    RuleVerdict { score, broken }
}

/// A pattern of bounded size; what is found takes time in proportion to the text.
pub(crate) fn pattern(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| {
        // The engine draws the pattern over several lines; its last one says what is wrong.
        let text = error.to_string();
        text.lines().last().unwrap_or(&text).trim_start_matches("error: ").to_owned()
    })
}

fn plain(text: &str) -> String {
    collapsed(&composed(text).to_lowercase())
}

/// Whether a heading of this name is in the text with something below it.
fn has_section(text: &str, name: &str) -> bool {
    let name = heading_text(name);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(rest) = below_heading(line, &name) else { continue };
        let mut below = lines.clone().take_while(|line| !is_heading(line));
        if !rest.trim().is_empty() || below.any(|line| !line.trim().is_empty()) {
            return true;
        }
    }
    false
}

/// What comes after the heading on its line; `None` if the line is not this heading.
fn below_heading<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let trimmed = line.trim();
    if (is_heading(trimmed) || trimmed.ends_with(':') || trimmed.starts_with("**"))
        && heading_text(trimmed) == name
    {
        return Some("");
    }
    let (head, rest) = trimmed.split_once(':')?;
    (heading_text(head) == name).then_some(rest.trim_start_matches('*'))
}

fn is_heading(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with('#') && line.trim_start_matches('#').starts_with([' ', '\t'])
}

fn heading_text(line: &str) -> String {
    let text = line.trim().trim_start_matches('#').trim();
    plain(text.trim_matches(['*', '_', ':', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(rule: Value, answer: &str, expect: bool) {
        let parsed = Rule::parse(&rule).unwrap();
        let verdict = apply_rules(&[parsed], answer, &["search"]);
        assert_eq!(verdict.score.hard == 1.0, expect, "{rule} {answer:?} {verdict:?}");
        assert_eq!(verdict.broken.is_empty(), expect);
    }

    #[test]
    fn rules_are_kept_or_broken() {
        check(json!({"contains": "New  York"}), "in new\nyork", true);
        check(json!({"contains": "x"}), "y", false);
        check(json!({"not_contains": "sorry"}), "Sorry!", false);
        check(json!({"not_contains": "sorry"}), "fine", true);
        check(json!({"matches": "^\\d{4}-\\d\\d$"}), "2024-05", true);
        check(json!({"matches": "(?i)YES"}), "no", false);
        check(json!({"not_matches": "[A-Z]{3}"}), "abc", true);
        check(json!({"not_matches": "[A-Z]{3}"}), "ABC", false);
        check(json!({"min_chars": 3}), " ab ", false);
        check(json!({"min_chars": 2}), "äö", true);
        check(json!({"max_chars": 2}), "äöü", false);
        check(json!({"min_words": 2}), "one", false);
        check(json!({"max_words": 2}), "one two", true);
        check(json!({"max_words": 1}), "one two", false);
        check(json!({"tool_called": "search"}), "", true);
        check(json!({"tool_called": "buy"}), "", false);
        check(json!({"tool_not_called": "search"}), "", false);
        check(json!({"tool_not_called": "buy"}), "", true);
    }

    #[test]
    fn sections() {
        let section = |name: &str| json!({"section": name});
        check(section("Summary"), "# Summary\n\nAll is well.", true);
        check(section("summary"), "intro\n### SUMMARY ###\ntext", false);
        check(section("summary"), "intro\n### SUMMARY:\ntext", true);
        check(section("Summary"), "**Summary**\ntext", true);
        check(section("Summary"), "**Summary:** text", true);
        check(section("Summary"), "Summary: text", true);
        check(section("Summary"), "Summary:\n\ntext", true);
        check(section("Summary"), "# Summary\n\n# Next\ntext", false);
        check(section("Summary"), "# Summary", false);
        check(section("Summary"), "The summary is this.", false);
        check(section("Next steps"), "## Summary\nx\n## Next steps\n- a", true);
    }

    #[track_caller]
    fn check_error(rule: Value, expect: &str) {
        assert_eq!(Rule::parse(&rule).unwrap_err().to_string(), expect);
    }

    #[test]
    fn what_is_no_rule() {
        let names = NAMES.join(", ");
        check_error(json!({"has": "x"}), &format!("there is no rule `has`; the rules are {names}"));
        check_error(json!({"contains": 3}), "`contains` takes a text, not 3");
        check_error(json!({"contains": " "}), "`contains` takes a text, not \" \"");
        check_error(json!({"max_words": -1}), "`max_words` takes a whole number, not -1");
        check_error(json!({"matches": "("}), "`matches` takes a pattern: unclosed group");
        check_error(
            json!({"contains": "x", "section": "y"}),
            "{\"contains\":\"x\",\"section\":\"y\"} is not a rule; a rule has one member, such as { contains = \"..\" }",
        );
        check_error(json!("x"), "\"x\" is not a rule; a rule has one member, such as { contains = \"..\" }");
    }

    #[test]
    fn no_rules_are_not_kept() {
        assert_eq!(apply_rules(&[], "x", &[]).score, Score::default());
    }
}
