//! What a model thought, where its server has left it in the text of the reply.
//!
//! A server without a parser for reasoning hands out what the model thought as a part of its reply: between tags, or
//! before a bare closing tag where the chat template has written the opening one into the prompt, or after an opening
//! tag where the reply was cut. None of it is an answer. [`parts`] takes a reply apart, and everything that reads an
//! answer, an action or JSON out of a reply goes through it. Records keep the text as it came.

use memchr::{memchr, memchr3};
use std::borrow::Cow;
use std::ops::Range;

/// The names of tags around thoughts, compared without regard to case.
const NAMES: [&str; 13] = [
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "analysis",
    "scratchpad",
    "seed:think",
    "reflection",
    "mm:think",
    "cot",
    "chain_of_thought",
    "inner_monologue",
];

/// Marks of other forms, each with whether it opens a thought.
const MARKS: [(&str, bool); 15] = [
    ("[think]", true),
    ("[/think]", false),
    ("\u{25c1}think\u{25b7}", true),
    ("\u{25c1}/think\u{25b7}", false),
    ("<|begin_of_thought|>", true),
    ("<|end_of_thought|>", false),
    ("<|start_thinking|>", true),
    ("<|end_thinking|>", false),
    ("<|channel|>analysis<|message|>", true),
    ("<|channel|>commentary<|message|>", true),
    ("<|channel|>final<|message|>", false),
    ("<|channel|>final <|constrain|>json<|message|>", false),
    ("<|channel>thought", true),
    ("<channel|>", false),
    ("<|/think|>", false),
];

/// What chat formats write before an answer, and servers leave there.
const HEADS: [&str; 17] = [
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<|im_start|>assistant",
    "<|start|>assistant",
    "<start_of_turn>model",
    "<|turn>model",
    "<|assistant|>",
    "<|chatbot_token|>",
    "<|start_response|>",
    "<|begin_of_box|>",
    "<|begin_of_solution|>",
    "<|begin_of_text|>",
    "<\u{ff5c}assistant\u{ff5c}>",
    "[/inst]",
    "<bos>",
    "<s>",
    "<|message|>",
];

/// What chat formats write behind an answer, and servers leave there.
const ENDS: [&str; 23] = [
    "<|return|>",
    "<|end|>",
    "<|call|>",
    "<|im_end|>",
    "<|im_sep|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn_token|>",
    "<|end_of_turn|>",
    "<|end_response|>",
    "<|end_of_box|>",
    "<|end_of_solution|>",
    "<|end_of_sentence|>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "<end_of_turn>",
    "<turn|>",
    "<eos>",
    "</s>",
    "[e~[",
    "[eos]",
];

/// What begins another turn: a server that does not stop there goes on with words that nobody said.
const TURNS: [&str; 8] = [
    "<|start_header_id|>",
    "<|start_of_role|>",
    "<|im_start|>",
    "<|start|>",
    "<start_of_turn>",
    "<|turn>",
    "<|user|>",
    "<|observation|>",
];

/// How gpt-oss writes where its server has taken the marks away: the name of the channel, then what is said in it.
const BARE_CHANNELS: (&str, &str) = ("analysis", "assistantfinal");

/// Tags around calls of tools that a server has left in the text.
const CALLS: [(&str, &str); 4] = [
    ("<tool_call>", "</tool_call>"),
    ("<|tool_call_begin|>", "<|tool_call_end|>"),
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<function_call>", "</function_call>"),
];

/// The most bytes of a tag's attributes.
const MAX_ATTRIBUTE_BYTES: usize = 100;

/// A reply taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The reply without what the model thought; the whole text where it holds no thought.
    pub answer: Cow<'a, str>,
    /// What the model thought, without the tags; `None` where nothing of it is in the text.
    pub thought: Option<String>,
    /// The thought ended at a closing tag that nothing had opened.
    pub is_bare: bool,
}

/// Takes a reply apart: what is between the tags of a thought, before a closing tag that nothing opened, and after an
/// opening tag that nothing closes is thought, and the rest is the answer.
///
/// Tags in code, and in the strings of a JSON object, are what they are.
///
/// ```
/// use skill_core::thought;
///
/// assert_eq!(thought::answer("<think>Late, so shipping.</think>\n\nshipping").trim(), "shipping");
/// assert_eq!(thought::answer("It is late.\n</think>\nshipping").trim(), "shipping");
/// assert_eq!(thought::answer("<think>It is late"), "");
/// assert_eq!(thought::answer("End with `</think>`."), "End with `</think>`.");
/// ```
pub fn parts(text: &str) -> Parts<'_> {
    parts_but(text, |_| false)
}

/// The same where the task itself asks for tags with some of these names, such as the tag of its answer: those are no
/// thoughts.
pub fn parts_but(text: &str, is_asked_for: impl Fn(&str) -> bool) -> Parts<'_> {
    let tags = tags(text, &is_asked_for);
    if tags.is_empty() {
        if let Some((thought, answer)) = of_bare_channels(text) {
            let answer = Cow::Borrowed(unframed(answer));
            return Parts { answer, thought: Some(thought.trim().to_owned()), is_bare: true };
        }
        let answer = without_calls(unframed(text), &is_asked_for);
        return Parts { answer, thought: None, is_bare: false };
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut thought: Vec<&str> = Vec::new();
    let mut is_bare = false;
    let mut at = 0;
    let mut is_open = false;
    for tag in &tags {
        let before = text.get(at..tag.range.start).expect("tags are on character boundaries, in order");
        match (is_open, tag.opens) {
            // A thought may speak of the tag that it began with.
            (true, true) => continue,
            (true, false) => thought.push(before),
            (false, true) => kept.push(before),
            (false, false) => {
                is_bare = true;
                thought.append(&mut kept);
                thought.push(before);
            }
        }
        is_open = tag.opens;
        at = tag.range.end;
    }
    let rest = text.get(at..).expect("tags are on character boundaries, in order");
    if is_open {
        thought.push(rest);
    } else {
        kept.push(rest);
    }
    kept.retain(|part| !part.trim().is_empty());
    let answer = match kept.as_slice() {
        [] => Cow::Borrowed(""),
        [part] => without_calls(unframed(part), &is_asked_for),
        parts => {
            let whole = parts.concat();
            Cow::Owned(without_calls(unframed(&whole), &is_asked_for).into_owned())
        }
    };
    let said: Vec<&str> = thought.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    Parts { answer, thought: Some(said.join("\n\n")), is_bare }
}

/// The reply without what the model thought; see [`parts`].
pub fn answer(text: &str) -> Cow<'_, str> {
    parts(text).answer
}

/// True if what the model thought is in the text.
pub fn is_left_in(text: &str) -> bool {
    parts(text).thought.is_some()
}

/// True for the name of a tag that is around thoughts, in any case.
pub(crate) fn is_tag_name(name: &str) -> bool {
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// True if a text names an opening tag, as prompts do that ask for one.
pub fn names_a_tag(text: &str) -> bool {
    (0..text.len())
        .any(|at| matches!(text.as_bytes().get(at), Some(b'<' | b'[')) && tag_at(text, at).is_some())
}

/// True if marks of a chat format are around the text: its server does not take them off.
pub fn has_marks(text: &str) -> bool {
    unframed(text).len() != text.len()
}

/// A text without the marks that a chat format has around an answer, and without turns that nobody took; a text that is
/// nothing but marks stays as it is.
fn unframed(text: &str) -> &str {
    if memchr3(b'<', b'[', 0xef, text.as_bytes()).is_none() {
        return text;
    }
    let mut inner = text;
    loop {
        let (start, end) = (inner.trim_start(), inner.trim_end());
        let strip_head = || {
            HEADS.iter().find_map(|head| {
                starts_with_ignoring_case(start, head).then(|| start.get(head.len()..)).flatten()
            })
        };
        let strip_end = || {
            ENDS.iter().find_map(|mark| {
                let at = end.len().checked_sub(mark.len())?;
                end.get(at..)?.eq_ignore_ascii_case(mark).then(|| end.get(..at)).flatten()
            })
        };
        match strip_head().or_else(strip_end).or_else(|| before_turn(inner)) {
            Some(stripped) if !stripped.trim().is_empty() => inner = stripped,
            Some(_) | None => return inner,
        }
    }
}

/// What is before an end that another turn follows.
fn before_turn(text: &str) -> Option<&str> {
    let starts = |at: usize, marks: &[&str]| {
        let rest = text.get(at..)?;
        marks.iter().find(|mark| starts_with_ignoring_case(rest, mark)).map(|mark| at + mark.len())
    };
    text.match_indices(['<', '[']).find_map(|(at, _)| {
        let behind = starts(at, &ENDS)?;
        let blank = text.get(behind..)?.len() - text.get(behind..)?.trim_start().len();
        starts(behind + blank, &TURNS)?;
        text.get(..at)
    })
}

/// Thought and answer where the names of channels are left and their marks are not.
fn of_bare_channels(text: &str) -> Option<(&str, &str)> {
    let (analysis, last) = BARE_CHANNELS;
    let inside = text.trim_start().strip_prefix(analysis)?;
    let at = inside.rfind(last)?;
    Some((inside.get(..at)?, inside.get(at + last.len()..)?))
}

/// A text without the calls of tools in it that nobody asked for in tags; a call that is not closed reaches to the end.
fn without_calls<'a>(text: &'a str, is_asked_for: &impl Fn(&str) -> bool) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for (open, close) in CALLS {
        if !text.contains(open) || is_asked_for(open.trim_matches(['<', '>'])) {
            continue;
        }
        let shielded = Shielded::of(&text);
        let mut kept = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(start) = text.get(at..).and_then(|rest| rest.find(open)).map(|found| at + found) {
            let inside = start + open.len();
            let end = text
                .get(inside..)
                .and_then(|rest| rest.find(close))
                .map(|found| inside + found + close.len());
            let end = end.unwrap_or(text.len());
            let is_spoken_of = is_quoted(&text, &(start..inside))
                || [&shielded.code, &shielded.objects].iter().any(|ranges| is_within(ranges, start));
            kept.push_str(
                text.get(at..if is_spoken_of { end } else { start })
                    .expect("tags are on character boundaries, in order"),
            );
            at = end;
        }
        kept.push_str(text.get(at..).expect("tags are on character boundaries, in order"));
        text = Cow::Owned(kept);
    }
    text
}

/// A tag in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tag {
    range: Range<usize>,
    opens: bool,
}

/// The tags that begin and end thoughts, in order.
fn tags(text: &str, is_asked_for: &impl Fn(&str) -> bool) -> Vec<Tag> {
    let bytes = text.as_bytes();
    let mut tags: Vec<Tag> = Vec::new();
    // Where code and objects are is looked for only in a text that has a tag.
    let mut shielded: Option<Shielded> = None;
    let mut at = 0;
    while let Some(step) = bytes.get(at..).and_then(|rest| memchr3(b'<', b'[', 0xe2, rest)) {
        at += step;
        let Some((tag, name)) = tag_at(text, at) else {
            at += 1;
            continue;
        };
        at = tag.range.end;
        if name.is_some_and(is_asked_for) {
            continue;
        }
        let shielded = shielded.get_or_insert_with(|| Shielded::of(text));
        let is_open = tags.last().is_some_and(|last| last.opens);
        // What ends an open thought is no part of code or of an object: a draft in it may be cut anywhere.
        let ends_thought = is_open && !tag.opens;
        if is_quoted(text, &tag.range) || !ends_thought && shielded.holds(text, &tag) {
            continue;
        }
        tags.push(tag);
    }
    tags
}

/// The tag that begins here, with its name where it has the form `<NAME>`.
fn tag_at(text: &str, at: usize) -> Option<(Tag, Option<&str>)> {
    let rest = text.get(at..)?;
    for (mark, opens) in MARKS {
        if starts_with_ignoring_case(rest, mark) {
            return Some((Tag { range: at..at + mark.len(), opens }, None));
        }
    }
    let inside = rest.strip_prefix('<')?;
    let (opens, inside) = match inside.strip_prefix('/') {
        Some(inside) => (false, inside),
        None => (true, inside),
    };
    let inside = inside.trim_start_matches(' ');
    let length = inside.find(|letter: char| !letter.is_ascii_alphabetic() && !matches!(letter, ':' | '_'))?;
    let (name, behind) = inside.split_at_checked(length)?;
    if !is_tag_name(name) {
        return None;
    }
    let near = behind.as_bytes();
    let end = memchr(b'>', near.get(..=MAX_ATTRIBUTE_BYTES).unwrap_or(near))?;
    let attributes = behind.get(..end)?;
    if !(attributes.is_empty() || attributes.starts_with(char::is_whitespace))
        || attributes.contains(['<', '/'])
    {
        return None;
    }
    let length = rest.len() - behind.len() + end + 1;
    Some((Tag { range: at..at + length, opens }, Some(name)))
}

/// The parts of a text in which a tag is not one.
struct Shielded {
    code: Vec<Range<usize>>,
    objects: Vec<Range<usize>>,
    /// Where the last object or list opens.
    last_bracket: Option<usize>,
}

impl Shielded {
    fn of(text: &str) -> Self {
        Self { code: code_blocks(text), objects: objects(text), last_bracket: text.rfind(['{', '[']) }
    }

    /// True for a tag within code or an object, unless it ends a draft.
    fn holds(&self, text: &str, tag: &Tag) -> bool {
        let is_inside = [&self.code, &self.objects].iter().any(|ranges| is_within(ranges, tag.range.start));
        is_inside && !self.ends_a_draft(text, tag)
    }

    /// True for a closing tag that ends its line or has an object or a fence right behind it, where an object or a list
    /// follows: what was written before it and never finished is a draft.
    fn ends_a_draft(&self, text: &str, tag: &Tag) -> bool {
        let tail = text.get(tag.range.end..).expect("tags are on character boundaries, in order");
        let next = tail.trim_start_matches([' ', '\t', '\r']);
        let is_behind = next.starts_with(['\n', '{']) || next.starts_with("```");
        !tag.opens && is_behind && self.last_bracket >= Some(tag.range.end)
    }
}

/// True for a tag in quotes of its own, which is only spoken of.
fn is_quoted(text: &str, tag: &Range<usize>) -> bool {
    let quote = |at: usize| text.as_bytes().get(at).filter(|byte| matches!(byte, b'`' | b'"' | b'\''));
    let before = tag.start.checked_sub(1).and_then(quote);
    before.is_some() && before == quote(tag.end)
}

/// True if one of these ranges, which are in order, holds the place.
fn is_within(ranges: &[Range<usize>], at: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= at);
    ranges.get(next).is_some_and(|range| range.contains(&at))
}

/// Where objects begin and end, by their braces and strings alone; one that is not closed reaches to the end.
fn objects(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut objects = Vec::new();
    let mut at = 0;
    while let Some(step) = bytes.get(at..).and_then(|rest| memchr(b'{', rest)) {
        let start = at + step;
        let inside = bytes.get(start + 1..).expect("a brace was found there").trim_ascii_start();
        at = match inside.first() {
            Some(b'"') => {
                let end = object_end(bytes, start);
                objects.push(start..end);
                end
            }
            _ => start + 1,
        };
    }
    objects
}

/// The position after the object that begins here.
fn object_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut is_in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'{' if !is_in_string => depth += 1,
            b'}' if !is_in_string => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

/// The blocks of code between fences; one that is not closed is none.
fn code_blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut open = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        match open {
            None if trimmed.starts_with("```") => open = Some(at),
            Some(start) if trimmed == "```" => {
                blocks.push(start..at + line.len());
                open = None;
            }
            _ => {}
        }
        at += line.len();
    }
    blocks
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let parts = parts(text);
        assert_eq!(parts.answer.trim(), expect, "{text:?}");
        assert!(parts.thought.is_some(), "{text:?}");
        assert!(is_left_in(text));
    }

    #[track_caller]
    fn whole(text: &str) {
        assert_eq!(parts(text), Parts { answer: Cow::Borrowed(text), thought: None, is_bare: false });
    }

    #[test]
    fn a_thought_is_no_part_of_an_answer() {
        check("<think>\nLate, so shipping.\n</think>\n\nshipping", "shipping");
        check("Late, so shipping.\n</think>\n\nshipping", "shipping");
        check("Late.</think>shipping", "shipping");
        check("</think>\n\nshipping", "shipping");
        check("<think></think>shipping", "shipping");
        check("<think>It is late, and", "");
        check("shipping\n<think>Is it?", "shipping");
        check("shipping <think>Is it?</think>", "shipping");
        check("Well. <think>Hm.</think> It is shipping.", "Well.  It is shipping.");
        check("<THINKING>a</Thinking> b", "b");
        check("<think effort=\"low\">a</think >b", "b");
        check("< think>a</ think>b", "b");
        for (open, close) in [
            ("<thought>", "</thought>"),
            ("<reasoning>", "</reasoning>"),
            ("<analysis>", "</analysis>"),
            ("<scratchpad>", "</scratchpad>"),
            ("<seed:think>", "</seed:think>"),
            ("[THINK]", "[/THINK]"),
            ("◁think▷", "◁/think▷"),
            ("<mm:think>", "</mm:think>"),
            ("<cot>", "</cot>"),
            ("<chain_of_thought>", "</chain_of_thought>"),
            ("<|begin_of_thought|>", "<|end_of_thought|>"),
            ("<|START_THINKING|>", "<|END_THINKING|>"),
            ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ] {
            check(&format!("{open}a{close}b"), "b");
            check(&format!("a{close}b"), "b");
            check(&format!("{open}a"), "");
        }
        check(
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
            "b",
        );
    }

    #[test]
    fn marks_of_chat_formats_are_no_part_of_an_answer() {
        for text in [
            "b<|im_end|>",
            "b<|eot_id|>\n",
            "b</s>",
            "b </S>",
            "b<|endoftext|>",
            "b<end_of_turn>\n",
            "b<|im_end|></s>",
            "<s>b</s>",
            "<bos>b<eos>",
            "b<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
            "<|start_header_id|>assistant<|end_header_id|>\n\nb",
            "<|im_start|>assistant\nb<|im_end|>",
            "<start_of_turn>model\nb",
            "b<|im_end|>\n<|im_start|>user\nAnd c?<|im_end|>",
            "<think>a</think><|begin_of_box|>b<|end_of_box|>",
            "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>",
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>b",
            "analysisThey ask for b.assistantfinalb",
            "b\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
            "<tool_call>{\"name\": \"f\"}</tool_call> b",
            "b <tool_call>{\"name\":",
        ] {
            assert_eq!(answer(text).trim(), "b", "{text:?}");
        }
        for text in [
            "use </s> here",
            "`</s>`",
            "</s>",
            "<|im_end|>",
            "It ends with `<|im_end|>`.",
            "a <s> b",
            "[INST]",
            "analysis of b",
            "```\n<tool_call>x</tool_call>\n```",
            "write `<tool_call>` first",
        ] {
            assert_eq!(answer(text), text, "{text:?}");
        }
        assert!(has_marks("b</s>") && !has_marks("b") && !has_marks("use </s> here"));
        let text = "<tool_call>x</tool_call>";
        assert_eq!(parts_but(text, |name| name == "tool_call").answer, text);
    }

    #[test]
    fn several_thoughts_and_thoughts_in_thoughts() {
        check("<think>a</think><think>b</think>c", "c");
        check("<think>a <think> b </think> c </think> d", "d");
        check("<think>I use <think> tags.</think>d", "d");
        check("<think>I end with `</think>`, so:</think>d", "d");
        check("a</think>b</think>c", "c");
        check("a <think>b</think> c </thinking> d", "d");
        check("<think>a</reasoning>b", "b");
        assert_eq!(parts("<think> a </think>b<think>c").thought.as_deref(), Some("a\n\nc"));
    }

    #[test]
    fn a_tag_that_is_spoken_of_is_none() {
        whole("shipping");
        whole("");
        whole("a < b and c > d, [x]");
        whole("End with `</think>`.");
        whole("Reply with \"<think>\" first.");
        whole("```html\n<think>a</think>\n```");
        whole("{\"a\": \"<think>b</think>\", \"c\": 1}");
        whole("{\"a\": \"close with </think> always\"}");
        whole("<thinker>a</thinker>");
        whole("<answer>a</answer>");
    }

    #[test]
    fn a_tag_that_the_task_asks_for_is_none() {
        let text = "<think>x</think><analysis>y</analysis>";
        let found = parts_but(text, |name| name.eq_ignore_ascii_case("analysis"));
        assert_eq!(found.answer, "<analysis>y</analysis>");
        for (prompt, expect) in
            [("Think between <think> and </think>.", true), ("Think, then [answer].", false)]
        {
            assert_eq!(names_a_tag(prompt), expect, "{prompt}");
        }
    }
}
