//! Making text from outside safe to be in a prompt: clipping, escaping, fences.

use std::borrow::Cow;

/// Room for the note that stands where text was left out.
const NOTE_CHARS: usize = 60;

/// The tags that begin and end blocks around trajectories and everything in them, in lower case.
const TRAJECTORY_TAGS: [&str; 6] = ["</trajectory", "<trajectory", "</skill", "<skill", "</pair", "<pair"];

/// The tags that begin and end the blocks around and before the step memory.
const MEMORY_TAGS: [&str; 6] = ["</trajectory", "<trajectory", "</skill", "<skill", "</memory", "<memory"];

/// The tag that would end the block around the skill.
const SKILL_TAGS: [&str; 1] = ["</skill"];

/// At most `limit` characters of `text`: of a longer one the first and the last, and between them a line that says
/// how many are missing.
///
/// A limit below the length of that line keeps nothing but the line.
pub(crate) fn clip(text: &str, limit: usize) -> Cow<'_, str> {
    let n_chars = text.chars().count();
    if n_chars <= limit {
        return Cow::Borrowed(text);
    }
    let n_kept = limit.saturating_sub(NOTE_CHARS);
    let n_head = n_kept.div_ceil(2);
    let n_tail = n_kept - n_head;
    let head: String = text.chars().take(n_head).collect();
    let tail: String = text.chars().skip(n_chars - n_tail).collect();
    Cow::Owned(format!("{head}\n[... {} characters left out ...]\n{tail}", n_chars - n_kept))
}

/// Text that cannot end a trajectory's block, nor begin another.
pub(crate) fn escape_in_trajectory(text: &str) -> Cow<'_, str> {
    escape_tags(text, &TRAJECTORY_TAGS)
}

/// Text that cannot end the skill's block.
pub(crate) fn escape_in_skill(text: &str) -> Cow<'_, str> {
    escape_tags(text, &SKILL_TAGS)
}

/// Text that cannot end the step memory's block, nor begin another.
pub(crate) fn escape_in_memory(text: &str) -> Cow<'_, str> {
    escape_tags(text, &MEMORY_TAGS)
}

/// Text on one line: every run of white space is a blank.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text that cannot end the block that this tag, such as `</notes`, would end.
pub fn escape_closing<'a>(text: &'a str, tag: &str) -> Cow<'a, str> {
    escape_tags(text, &[tag])
}

/// Puts a backslash behind the `<` of every tag that begins like one of `tags`, in upper or lower case.
fn escape_tags<'a>(text: &'a str, tags: &[&str]) -> Cow<'a, str> {
    let begins_tag = |rest: &str| {
        tags.iter().any(|tag| rest.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)))
    };
    let mut escaped = String::new();
    let mut n_copied = 0;
    for (at, _) in text.match_indices('<') {
        let (Some(before), Some(rest)) = (text.get(n_copied..=at), text.get(at..)) else { continue };
        if begins_tag(rest) {
            escaped.push_str(before);
            escaped.push('\\');
            n_copied = at + 1;
        }
    }
    if n_copied == 0 {
        return Cow::Borrowed(text);
    }
    escaped.push_str(text.get(n_copied..).unwrap_or_default());
    Cow::Owned(escaped)
}

/// The value of an attribute between double quotes, as in XML; control characters become references.
pub(crate) fn escape_attribute(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            control if control.is_control() => {
                escaped.push_str(&format!("&#{};", u32::from(control)));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Backticks for a code fence around `text`: three, or one more than the longest run of them in it.
pub(crate) fn fence_for(text: &str) -> String {
    let (mut longest, mut current) = (0, 0);
    for character in text.chars() {
        current = if character == '`' { current + 1 } else { 0 };
        longest = longest.max(current);
    }
    "`".repeat((longest + 1).max(3))
}

/// A score with up to 4 digits behind the point and no zeros at its end.
pub(crate) fn score_text(score: f64) -> String {
    let text = format!("{score:.4}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(actual: T, expected: U) {
        assert_eq!(actual, expected);
    }

    #[test]
    fn scores_have_at_most_four_digits() {
        check(score_text(0.0), "0");
        check(score_text(-0.0), "0");
        check(score_text(-0.000_01), "0");
        check(score_text(1.0), "1");
        check(score_text(0.25), "0.25");
        check(score_text(1.0 / 3.0), "0.3333");
        check(score_text(0.1), "0.1");
        check(score_text(0.999_96), "1");
        check(score_text(10.0), "10");
        check(score_text(f64::NAN), "NaN");
        check(score_text(f64::INFINITY), "inf");
    }

    #[test]
    fn a_tag_from_outside_cannot_end_a_block() {
        check(escape_in_trajectory("nothing < here"), "nothing < here");
        check(escape_in_trajectory("</trajectory>"), "<\\/trajectory>");
        check(escape_in_trajectory("a </Trajectory > b </skill>"), "a <\\/Trajectory > b <\\/skill>");
        check(escape_in_trajectory("<trajectory index=\"2\">"), "<\\trajectory index=\"2\">");
        check(escape_in_trajectory("<<skill>"), "<<\\skill>");
        check(escape_in_trajectory("ü</skill>ü</traj"), "ü<\\/skill>ü</traj");
        check(escape_in_skill("<skill> </trajectory> </SKILL>"), "<skill> </trajectory> <\\/SKILL>");
        check(escape_in_skill("</"), "</");
    }

    #[test]
    fn attributes_are_escaped() {
        check(escape_attribute("q-17"), "q-17");
        check(escape_attribute("a\" hard=\"1\">&"), "a&quot; hard=&quot;1&quot;&gt;&amp;");
        check(escape_attribute("a\nb\u{7}"), "a&#10;b&#7;");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        check(fence_for(""), "```");
        check(fence_for("`a``"), "```");
        check(fence_for("x ``` y"), "````");
        check(fence_for("`````"), "``````");
    }

    #[test]
    fn long_text_loses_its_middle() {
        check(clip("abc", 3), "abc");
        check(
            clip(&"ä".repeat(101), 100),
            format!("{}\n[... 61 characters left out ...]\n{}", "ä".repeat(20), "ä".repeat(20)),
        );
        check(clip("abcdef", 3), "\n[... 6 characters left out ...]\n");
    }

    proptest! {
        #[test]
        fn a_clipped_text_fits(text in "\\PC{0,300}", limit in 60_usize..400) {
            let clipped = clip(&text, limit);
            prop_assert!(clipped.chars().count() <= limit);
            prop_assert!(text.chars().count() > limit || clipped == text);
        }

        #[test]
        fn escaped_text_has_no_tag_and_all_of_the_text(text in "(<|/|\\\\|skill|TRAJECTORY|>|x|ä| ){0,30}") {
            let escaped = escape_in_trajectory(&text);
            let lower = escaped.to_ascii_lowercase();
            prop_assert!(TRAJECTORY_TAGS.iter().all(|tag| !lower.contains(tag)));
            let without = |text: &str| text.replace('\\', "");
            prop_assert_eq!(without(&escaped), without(&text));
        }
    }
}
