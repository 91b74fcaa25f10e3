//! What a server does that spoils results without being an error: told once by a run, and by whoever examines a server.

use crate::chat::{ChatReply, ChatRequest, ContentPart, FinishReason, UsageGap};
use skill_core::thought;
use std::fmt;

/// Below so many characters nothing is said of a prompt that a server may have cut.
const MIN_CUT_CHARACTERS: u64 = 4000;
/// A text has seldom more characters than this for each token.
const MAX_CHARACTERS_OF_TOKEN: u64 = 8;

/// One of the things that a server does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// It has probably truncated the prompt.
    CutPrompt {
        /// The characters that were sent.
        n_characters: u64,
        /// The prompt tokens that it reports.
        n_tokens: u64,
    },
    /// It leaves marks of the chat format in the text.
    MarksInText,
    /// It ended the reply with a finish reason that is in no list.
    UnknownFinish {
        /// The reason.
        word: String,
    },
    /// It reports a part of the usage.
    PartialUsage {
        /// What is missing, and where the count comes from.
        gap: UsageGap,
    },
}

impl Oddity {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::CutPrompt { .. } => {
                "raise the context of the server, at Ollama by OLLAMA_CONTEXT_LENGTH or `num_ctx` in a Modelfile"
            }
            Self::MarksInText => {
                "check the chat template of the server: it may have another one than the model; the marks are taken off answers"
            }
            Self::UnknownFinish { .. } => "look at the reply: it counts as one",
            Self::PartialUsage { .. } => {
                "expect caps on tokens and money to hold about, and a cap on calls exactly; or use a server that reports whole usage"
            }
        }
    }

    /// The place of its kind among all kinds.
    pub(crate) fn kind_index(&self) -> usize {
        match self {
            Self::CutPrompt { .. } => 0,
            Self::MarksInText => 1,
            Self::UnknownFinish { .. } => 2,
            Self::PartialUsage { .. } => 3,
        }
    }
}

/// The number of kinds.
pub(crate) const N_KINDS: usize = 4;

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutPrompt { n_characters, n_tokens } => write!(
                f,
                "has probably cut the prompt: {n_characters} characters were sent, and it counts {n_tokens} tokens of prompt"
            ),
            Self::MarksInText => {
                write!(f, "leaves marks of the chat format in its replies, such as <|im_end|>")
            }
            Self::UnknownFinish { word } => {
                write!(f, "ended a reply with the unknown finish reason `{word}`; it counts as a reply")
            }
            Self::PartialUsage { gap } => write!(f, "reports only a part of `usage`: {}", gap.words()),
        }
    }
}

/// About how many tokens a text has, where nobody has counted them.
pub(crate) fn estimated(n_characters: usize) -> u64 {
    u64::try_from(n_characters.div_ceil(4)).unwrap_or(u64::MAX)
}

/// What is odd about a reply to a prompt of so many characters; 0 if that says nothing of tokens, as with images.
pub(crate) fn oddities_of(n_characters: u64, reply: &ChatReply) -> Vec<Oddity> {
    let n_tokens = reply.usage.input;
    let is_cut = n_characters >= MIN_CUT_CHARACTERS
        && n_tokens > 0
        && n_tokens.saturating_mul(MAX_CHARACTERS_OF_TOKEN) < n_characters;
    let word = match &reply.finish {
        FinishReason::Other(word) if !word.is_empty() => Some(word.clone()),
        _ => None,
    };
    let found = [
        is_cut.then_some(Oddity::CutPrompt { n_characters, n_tokens }),
        thought::has_marks(&reply.text).then_some(Oddity::MarksInText),
        word.map(|word| Oddity::UnknownFinish { word }),
        reply.usage_gap.map(|gap| Oddity::PartialUsage { gap }),
    ];
    found.into_iter().flatten().collect()
}

/// What is odd about a reply to a request.
///
/// ```
/// use skill_llm::{ChatReply, ChatRequest, Message, Usage, oddity::{Oddity, oddities}};
///
/// let request = ChatRequest::new(vec![Message::user("x ".repeat(10_000))]);
/// let reply = ChatReply::text("yes", Usage { input: 2_050, output: 1, ..Usage::default() });
/// assert!(matches!(oddities(&request, &reply).as_slice(), [Oddity::CutPrompt { n_tokens: 2_050, .. }]));
/// ```
pub fn oddities(request: &ChatRequest, reply: &ChatReply) -> Vec<Oddity> {
    let parts = || request.messages.iter().flat_map(|message| &message.content);
    let n_characters: usize = parts()
        .map(|part| match part {
            ContentPart::Text(text) => text.chars().count(),
            ContentPart::Image(_) => 0,
        })
        .sum();
    let has_image = parts().any(|part| matches!(part, ContentPart::Image(_)));
    oddities_of(if has_image { 0 } else { u64::try_from(n_characters).unwrap_or(u64::MAX) }, reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::Usage;

    #[test]
    fn what_a_server_does_is_told_by_its_reply() {
        let of = |n_characters: u64, input: u64, text: &str, finish: FinishReason, gap: Option<UsageGap>| {
            let usage = Usage { input, output: 1, ..Usage::default() };
            let reply = ChatReply::new(text, usage, finish).with_usage_gap(gap);
            oddities_of(n_characters, &reply).iter().map(Oddity::kind_index).collect::<Vec<_>>()
        };
        // Ollama's usual context.
        for (n_characters, n_tokens, expect) in
            [(35_798, 4_096, vec![0]), (16_000, 4_096, vec![]), (35_798, 0, vec![]), (3_999, 1, vec![])]
        {
            assert_eq!(
                of(n_characters, n_tokens, "yes", FinishReason::Stop, None),
                expect,
                "{n_characters} {n_tokens}"
            );
        }
        let other = |word: &str| FinishReason::Other(word.to_owned());
        assert_eq!(of(9, 9, "yes</s>", other("xyz"), Some(UsageGap::OnlyTotal)), [1, 2, 3]);
        assert!(of(9, 9, "yes", other(""), None).is_empty());
    }
}
