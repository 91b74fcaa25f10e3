//! Anomalies of a server that spoil results without being errors: a run logs each kind once, and `doctor` reports them as
//! findings.

use crate::chat::{ChatReply, ChatRequest, ContentPart, FinishReason, UsageGap};
use skill_core::thought;
use std::fmt;

/// Below so many characters nothing is said of a prompt that a server may have cut.
const MIN_CUT_CHARACTERS: u64 = 4000;
/// A text has seldom more characters than this for each token.
const MAX_CHARACTERS_OF_TOKEN: u64 = 8;

/// An anomaly of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anomaly {
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

impl Anomaly {
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

    /// The index of its kind, from 0 to below [`N_KINDS`].
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

impl fmt::Display for Anomaly {
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

/// An estimate of a text's tokens: four characters each.
pub(crate) fn estimated(n_characters: usize) -> u64 {
    u64::try_from(n_characters.div_ceil(4)).unwrap_or(u64::MAX)
}

/// The anomalies of a reply to a prompt of `n_characters`; with 0 the prompt's tokens are not checked, as where it has images.
pub(crate) fn anomalies_of(n_characters: u64, reply: &ChatReply) -> Vec<Anomaly> {
    let n_tokens = reply.usage.input;
    let is_cut = n_characters >= MIN_CUT_CHARACTERS
        && n_tokens > 0
        && n_tokens.saturating_mul(MAX_CHARACTERS_OF_TOKEN) < n_characters;
    let word = match &reply.finish {
        FinishReason::Other(word) if !word.is_empty() => Some(word.clone()),
        _ => None,
    };
    let found = [
        is_cut.then_some(Anomaly::CutPrompt { n_characters, n_tokens }),
        thought::has_marks(&reply.text).then_some(Anomaly::MarksInText),
        word.map(|word| Anomaly::UnknownFinish { word }),
        reply.usage_gap.map(|gap| Anomaly::PartialUsage { gap }),
    ];
    found.into_iter().flatten().collect()
}

/// The anomalies of a reply to a request.
///
/// ```
/// use skill_llm::{ChatReply, ChatRequest, Message, Usage, anomaly::{Anomaly, anomalies}};
///
/// let request = ChatRequest::new(vec![Message::user("x ".repeat(10_000))]);
/// let reply = ChatReply::text("yes", Usage { input: 2_050, output: 1, ..Usage::default() });
/// assert!(matches!(anomalies(&request, &reply).as_slice(), [Anomaly::CutPrompt { n_tokens: 2_050, .. }]));
/// ```
pub fn anomalies(request: &ChatRequest, reply: &ChatReply) -> Vec<Anomaly> {
    let parts = || request.messages.iter().flat_map(|message| &message.content);
    let n_characters: usize = parts()
        .map(|part| match part {
            ContentPart::Text(text) => text.chars().count(),
            ContentPart::Image(_) => 0,
        })
        .sum();
    let has_image = parts().any(|part| matches!(part, ContentPart::Image(_)));
    anomalies_of(if has_image { 0 } else { u64::try_from(n_characters).unwrap_or(u64::MAX) }, reply)
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
            anomalies_of(n_characters, &reply).iter().map(Anomaly::kind_index).collect::<Vec<_>>()
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
