//! Which part of a reply is its answer.

use super::config::Extraction;
use crate::error::EnvError;
use crate::score::parse_json_answer;
use regex::Regex;
use serde_json::Value;
use skill_core::json::extract_answer;
use skill_core::text::is_invisible;
use skill_core::thought;
use std::ops::Range;

/// Takes the answer out of a reply.
#[derive(Debug, Clone)]
pub struct Extractor {
    extraction: Extraction,
    pattern: Option<Regex>,
}

/// An answer, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// The answer without white space around it; empty if there is none.
    pub answer: String,
    /// What was missing in the reply, as the end of "the reply has ..."; `None` if nothing was.
    pub missing: Option<String>,
    /// The reply holds nothing but what the model thought, and so no answer.
    pub is_only_thought: bool,
}

impl Extractor {
    /// Prepares the extraction.
    ///
    /// # Errors
    ///
    /// Invalid regular expression or tag name.
    pub fn new(extraction: Extraction) -> Result<Self, EnvError> {
        let wrong = |message: String| EnvError::Configuration { message };
        let pattern = match &extraction {
            Extraction::Whole | Extraction::LastLine => None,
            Extraction::Json { field } if field.trim().is_empty() => {
                return Err(wrong("`extract_field` is blank; expected the name of a member".to_owned()));
            }
            Extraction::Json { .. } => None,
            Extraction::LastTag { tag } => {
                let is_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
                if tag.is_empty() || !tag.chars().all(is_name) {
                    let message = format!("`extract_tag` is {tag:?}; expected a name such as \"answer\"");
                    return Err(wrong(message));
                }
                let tag = regex::escape(tag);
                let pattern = crate::score::pattern(&format!(r"(?i)<\s*(/?)\s*{tag}(?:\s[^<>]*)?/?>"));
                Some(pattern.map_err(|fault| wrong(format!("`extract_tag`: {fault}")))?)
            }
            Extraction::Regex { pattern } => {
                let compiled = crate::score::pattern(pattern);
                Some(compiled.map_err(|fault| {
                    wrong(format!("`extract_pattern` is not a regular expression: `{pattern}`: {fault}"))
                })?)
            }
        };
        Ok(Self { extraction, pattern })
    }

    /// The settings.
    pub fn extraction(&self) -> &Extraction {
        &self.extraction
    }

    /// The answer of a reply: what the model thought is no part of it, see [`skill_core::thought`].
    ///
    /// A tag that is not closed reaches to the end. Without its tag the last line counts, as SkillOpt has it for its
    /// benchmarks; without a match or without the member there is no answer.
    pub fn extract(&self, reply: &str) -> Extracted {
        // Where the task has the answer in such a tag, it is not a thought.
        let parts = thought::parts_but(reply, |name| match &self.extraction {
            Extraction::LastTag { tag } => tag.eq_ignore_ascii_case(name),
            Extraction::Regex { pattern } => pattern.to_lowercase().contains(&name.to_lowercase()),
            Extraction::Whole | Extraction::LastLine | Extraction::Json { .. } => false,
        });
        let answer = self.answer_in(&parts.answer);
        let is_only_thought =
            parts.thought.is_some_and(|thought| !thought.is_empty()) && trimmed(&parts.answer).is_empty();
        Extracted { is_only_thought, ..answer }
    }

    fn answer_in(&self, reply: &str) -> Extracted {
        let found = |answer: &str| Extracted {
            answer: trimmed(answer).to_owned(),
            missing: None,
            is_only_thought: false,
        };
        let without = |answer: &str, missing: String| Extracted { missing: Some(missing), ..found(answer) };
        match &self.extraction {
            Extraction::Whole => found(reply),
            Extraction::LastLine => found(last_line(reply)),
            Extraction::LastTag { tag } => match self.last_tag(reply) {
                Tagged::Inside(inner) => found(inner),
                Tagged::Before(text) => {
                    without(last_line(text), format!("no <{tag}> tag, so its last line counts"))
                }
            },
            Extraction::Regex { pattern } => match self.last_match(reply) {
                Some(inner) => found(inner),
                None => without("", format!("nothing that matches `{pattern}`")),
            },
            Extraction::Json { field } => {
                let has_member = |value: &Value| crate::score::member(value, field).is_some();
                let read = extract_answer(reply, has_member).or_else(|| parse_json_answer(reply));
                let Some(value) = read.map(|found| found.value) else {
                    return without("", "no JSON object in it".to_owned());
                };
                match crate::score::member(&value, field) {
                    Some(Value::String(text)) => found(text),
                    Some(Value::Null) | None => without("", format!("no member `{field}` in its JSON")),
                    Some(other) => found(&other.to_string()),
                }
            }
        }
    }

    fn last_match<'a>(&self, reply: &'a str) -> Option<&'a str> {
        let found = self.pattern.as_ref()?.captures_iter(reply).last()?;
        found.get(1).or_else(|| found.get(0)).map(|inner| inner.as_str())
    }

    /// What the last pair of tags has between them; else what follows the last opening tag that something follows; else
    /// what comes before the closing tag that nothing opened.
    fn last_tag<'a>(&self, reply: &'a str) -> Tagged<'a> {
        let tags = self.pattern.iter().flat_map(|pattern| pattern.captures_iter(reply));
        let tags = tags.filter_map(|tag| Some((tag.get(0)?.range(), tag.get(1)?.is_empty())));
        let tags: Vec<(Range<usize>, bool)> = tags.collect();
        let text = |from: usize, to: usize| reply.get(from..to).unwrap_or_default();
        let pair = tags.windows(2).rev().find_map(|pair| match pair {
            [(open, true), (close, false)] => Some(text(open.end, close.start)),
            _ => None,
        });
        let open = || {
            let ends = tags.iter().skip(1).map(|(next, _)| next.start).chain([reply.len()]);
            let opened = tags.iter().zip(ends).filter(|((_, opens), _)| *opens);
            let inner = opened.map(|((open, _), end)| text(open.end, end));
            inner.filter(|inner| !trimmed(inner).is_empty()).last()
        };
        match pair.or_else(open) {
            Some(inner) => Tagged::Inside(inner),
            None => Tagged::Before(text(0, tags.last().map_or(reply.len(), |(tag, _)| tag.start))),
        }
    }

    /// A reply in which this answer is found.
    ///
    /// There is none where a pattern decides: nobody knows a text for each pattern.
    pub(crate) fn reply_with(&self, answer: &str) -> Option<String> {
        let reply = match &self.extraction {
            Extraction::Whole => answer.to_owned(),
            Extraction::LastLine => format!("Here is my answer.\n{}", answer.replace('\n', " ")),
            Extraction::LastTag { tag } => format!("Here is my answer.\n<{tag}>{answer}</{tag}>"),
            Extraction::Json { field } => {
                let value = field.rsplit('.').fold(Value::from(answer), |inner, name| {
                    Value::Object([(name.to_owned(), inner)].into_iter().collect())
                });
                value.to_string()
            }
            Extraction::Regex { .. } => answer.to_owned(),
        };
        (self.extract(&reply).answer == answer.trim()).then_some(reply)
    }

    /// A sentence for the prompt that says in which form the answer is expected; empty if it does not matter.
    pub fn request(&self) -> String {
        match &self.extraction {
            Extraction::Whole | Extraction::Regex { .. } => String::new(),
            Extraction::LastLine => "End with a line that contains only the answer.".to_owned(),
            Extraction::LastTag { tag } => format!("Give the final answer between <{tag}> and </{tag}>."),
            Extraction::Json { field } => {
                format!("Reply with one JSON object that contains the answer as `{field}`.")
            }
        }
    }
}

/// Where the answer is in a reply with tags.
enum Tagged<'a> {
    Inside(&'a str),
    /// In the last line of this text.
    Before(&'a str),
}

/// A text without the white space and the characters of no width around it.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || is_invisible(character))
}

/// The last line that is not blank.
fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(extraction: Extraction, reply: &str, answer: &str, missing: Option<&str>) {
        let extracted = Extractor::new(extraction).unwrap().extract(reply);
        assert_eq!((extracted.answer.as_str(), extracted.missing.as_deref()), (answer, missing), "{reply:?}");
    }

    #[test]
    fn the_last_tag() {
        let tag = || Extraction::LastTag { tag: "answer".to_owned() };
        let no_tag = Some("no <answer> tag, so its last line counts");
        check(tag(), "blah <answer>The Beatles!</answer>", "The Beatles!", None);
        check(tag(), "<answer>x</answer> <answer> the  U.S.A. </answer>", "the  U.S.A.", None);
        check(tag(), "<ANSWER>\nx\ny\n</Answer> z", "x\ny", None);
        check(tag(), "<answer></answer>", "", None);
        check(tag(), "<answer>a <answer>b</answer>", "b", None);
        check(tag(), "line1\n\n  Paris, France \n", "Paris, France", no_tag);
        check(tag(), "a</answer>b<answer>c", "c", None);
        check(tag(), "", "", no_tag);
    }

    #[test]
    fn tags_that_are_nearly_right() {
        let tag = || Extraction::LastTag { tag: "answer".to_owned() };
        let no_tag = Some("no <answer> tag, so its last line counts");
        check(tag(), "So:\n<answer>Paris", "Paris", None);
        check(tag(), "<answer>{\n \"a\": 1\n}", "{\n \"a\": 1\n}", None);
        check(tag(), "<answer><answer>Paris</answer></answer>", "Paris", None);
        check(tag(), "<answer type=\"final\">Paris</answer>", "Paris", None);
        check(tag(), "<answer>Paris<answer>", "Paris", None);
        check(tag(), "<answer>Paris</ answer>", "Paris", None);
        check(tag(), "< answer >Paris< /answer >", "Paris", None);
        check(tag(), "<answer>Lyon</answer>\n<answer>Paris", "Lyon", None);
        check(tag(), "I think.\nParis</answer>", "Paris", no_tag);
        check(tag(), "Paris\n</answer>\n", "Paris", no_tag);
        check(tag(), "<answers>Paris</answers>", "<answers>Paris</answers>", no_tag);
    }

    #[test]
    fn what_the_model_thought_is_no_answer() {
        let tag = || Extraction::LastTag { tag: "answer".to_owned() };
        let draft = "<think>Maybe <answer>Lyon</answer>?</think> I do not know.";
        check(tag(), draft, "I do not know.", Some("no <answer> tag, so its last line counts"));
        check(Extraction::Whole, "Late, so shipping.\n</think>\n\nshipping", "shipping", None);
        check(Extraction::LastLine, "shipping\n<think>Is it?", "shipping", None);
        let json = Extraction::Json { field: "a".to_owned() };
        check(json, "<think>{\"a\": 1}</think>{\"a\": 2}", "2", None);
        let pattern = |pattern: &str| Extraction::Regex { pattern: pattern.to_owned() };
        check(pattern(r"\d+"), "42 <think>or 43?</think>", "42", None);
        // What a task asks for is an answer, whatever it is called.
        let reasoning = Extraction::LastTag { tag: "reasoning".to_owned() };
        check(reasoning, "<think>x</think><reasoning>y</reasoning>", "y", None);
        check(pattern(r"(?s)</think>(.*)"), "a</think> b", "b", None);
        check(pattern(r"(?s)<analysis>(.*)</analysis>"), "<analysis>b</analysis>", "b", None);
        let extractor = Extractor::new(Extraction::Whole).unwrap();
        for (reply, is_only_thought) in
            [("<think>x</think>", true), ("<think>x", true), ("", false), ("x", false)]
        {
            assert_eq!(extractor.extract(reply).is_only_thought, is_only_thought, "{reply:?}");
        }
    }

    #[test]
    fn the_last_line() {
        check(Extraction::LastLine, "a\nb\n\n \n", "b", None);
        check(Extraction::LastLine, "", "", None);
        check(Extraction::Whole, " a\nb ", "a\nb", None);
    }

    #[test]
    fn a_pattern() {
        let pattern = |pattern: &str| Extraction::Regex { pattern: pattern.to_owned() };
        check(pattern(r"####\s*(.+)"), "#### 1\n#### 42 ", "42", None);
        check(pattern(r"\d+"), "1 then 2", "2", None);
        check(pattern(r"(a)|(b)"), "b", "b", None);
        check(pattern(r"x"), "y", "", Some("nothing that matches `x`"));
    }

    #[test]
    fn a_member() {
        let member = |field: &str| Extraction::Json { field: field.to_owned() };
        check(member("answer"), "{\"answer\": \"Paris\"}", "Paris", None);
        check(member("a.b"), "```json\n{\"a\": {\"b\": 4.5}}\n```", "4.5", None);
        check(member("a.1"), "{\"a\": [1, [2]]}", "[2]", None);
        check(member("a"), "{\"b\": 1}", "", Some("no member `a` in its JSON"));
        check(member("a"), "{\"a\": null}", "", Some("no member `a` in its JSON"));
        check(member("a"), "none", "", Some("no JSON object in it"));
        check(member("a"), "{\"a\": 1} or rather {\"a\": 2}", "2", None);
        check(member("a"), "{\"b\": 0} and {\"a\": 2} and {\"b\": 1}", "2", None);
        check(member("a"), "{a: 2}", "2", None);
        check(member("a"), r#"{"a": "\frac{1}{2}"}"#, r"\frac{1}{2}", None);
        check(member("a"), "\u{feff}{\"a\": \"\u{200b}x\"}", "x", None);
    }

    #[test]
    fn what_cannot_be_extracted_by() {
        let check = |extraction, expect: &str| {
            assert_eq!(Extractor::new(extraction).unwrap_err().to_string(), expect);
        };
        let pattern = Extraction::Regex { pattern: "a(".to_owned() };
        check(pattern, "`extract_pattern` is not a regular expression: `a(`: unclosed group");
        let tag = Extraction::LastTag { tag: "<answer>".to_owned() };
        check(tag, "`extract_tag` is \"<answer>\"; expected a name such as \"answer\"");
        let field = Extraction::Json { field: " ".to_owned() };
        check(field, "`extract_field` is blank; expected the name of a member");
    }

    #[test]
    fn a_reply_is_made_for_an_answer() {
        for extraction in [
            Extraction::Whole,
            Extraction::LastLine,
            Extraction::LastTag { tag: "final".to_owned() },
            Extraction::Json { field: "a.b".to_owned() },
        ] {
            let extractor = Extractor::new(extraction).unwrap();
            let reply = extractor.reply_with("New York").unwrap();
            assert_eq!(extractor.extract(&reply).answer, "New York");
        }
        let pattern = Extraction::Regex { pattern: "#(.+)".to_owned() };
        assert_eq!(Extractor::new(pattern).unwrap().reply_with("x"), None);
    }
}
