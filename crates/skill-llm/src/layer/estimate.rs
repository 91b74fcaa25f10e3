//! What a request will use, before it is sent.

use crate::attempt::Bounds;
use crate::chat::{ChatRequest, ContentPart, ImageSource, Message};
use skill_core::Usage;
use std::sync::Arc;

/// How many bytes of text a token is taken to have.
const BYTES_PER_TOKEN: usize = 4;
/// What an image is taken to cost, whatever its size: providers charge by its area, which is not known here.
const TOKENS_PER_IMAGE: u64 = 1_000;
/// The tokens that a model's first reply is taken to have where the request sets no limit: as many as servers often allow
/// then. Only one request is in flight until that reply is known.
const DEFAULT_OUTPUT_TOKENS: u64 = 4_096;
/// Without a limit at least so many times the mean of a model's replies is reserved, if its longest is not longer: one
/// reply alone says little about the next.
const RESERVED_MEANS: u64 = 2;
/// By how much the ratio of tokens to bytes may pass the highest one seen: code and numbers have up to twice as many
/// tokens per byte as prose.
const RATIO_MARGIN: u64 = 2;
const PER_MILLE: u64 = 1_000;
/// Tokens that chat templates add to a prompt, such as a system message of their own.
const PROMPT_OVERHEAD: u64 = 64;
/// Tokens that chat templates add to each message.
const MESSAGE_OVERHEAD: u64 = 8;
/// Tokens that servers add to explain tools or a schema to the model.
const TOOLS_OVERHEAD: u64 = 600;
/// How much of the running mean a new reply replaces: one part in this many.
const MEAN_OF: u64 = 16;
/// The mean is kept in thousandths of a token.
const FRACTION: u64 = 1_000;

/// The tokens that a prompt is taken to have.
pub(super) fn input_tokens(request: &ChatRequest) -> u64 {
    let (mut bytes, mut images) = (0_usize, 0_u64);
    for message in &request.messages {
        for part in &message.content {
            match part {
                ContentPart::Text(text) => bytes += text.len(),
                ContentPart::Image(ImageSource::Url(_) | ImageSource::Base64 { .. }) => images += 1,
            }
        }
        bytes += message.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
        bytes += state_bytes(message);
    }
    bytes += request.tools.iter().map(|tool| tool.name.len() + tool.description.len()).sum::<usize>();
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN))
        .unwrap_or(u64::MAX)
        .saturating_add(images * TOKENS_PER_IMAGE)
}

/// The bytes of what the dialect of a reply gets back with it: thoughts are a part of the prompt too.
fn state_bytes(message: &Message) -> usize {
    message.provider_state.as_deref().map_or(0, |state| state.value.to_string().len())
}

/// The tokens that texts are taken to have.
pub(super) fn text_tokens(texts: &[Arc<str>]) -> u64 {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

/// The size of a prompt, as far as it bounds its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromptSize {
    /// Of text. A token is at least a byte.
    bytes: u64,
    /// Tokens that the server may add around the text.
    overhead: u64,
    images: u64,
}

impl PromptSize {
    /// Measures texts that are embedded together; a server adds tokens around each.
    pub(super) fn of_texts(texts: &[Arc<str>]) -> Self {
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        let n_texts = u64::try_from(texts.len()).unwrap_or(u64::MAX);
        Self {
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            overhead: PROMPT_OVERHEAD.saturating_add(n_texts.saturating_mul(MESSAGE_OVERHEAD)),
            images: 0,
        }
    }

    /// Measures a request.
    pub(super) fn of(request: &ChatRequest) -> Self {
        let json_bytes = |value: &serde_json::Value| value.to_string().len();
        let (mut bytes, mut images) = (0_usize, 0);
        for message in &request.messages {
            for part in &message.content {
                match part {
                    ContentPart::Text(text) => bytes += text.len(),
                    ContentPart::Image(ImageSource::Url(_) | ImageSource::Base64 { .. }) => images += 1,
                }
            }
            let of_call =
                |call: &crate::chat::ToolCall| call.id.len() + call.name.len() + call.arguments.len();
            bytes += message.tool_calls.iter().map(of_call).sum::<usize>() + state_bytes(message);
        }
        for tool in &request.tools {
            bytes += tool.name.len() + tool.description.len() + json_bytes(&tool.parameters);
        }
        if let Some(schema) = &request.response_schema {
            bytes += schema.name.len() + json_bytes(&schema.schema);
        }
        let is_structured = !request.tools.is_empty() || request.response_schema.is_some();
        let messages = u64::try_from(request.messages.len()).unwrap_or(u64::MAX);
        Self {
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            overhead: PROMPT_OVERHEAD
                .saturating_add(messages.saturating_mul(MESSAGE_OVERHEAD))
                .saturating_add(if is_structured { TOOLS_OVERHEAD } else { 0 }),
            images,
        }
    }
}

/// A reply that was received, with the size of its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeenReply {
    /// UTF-8 bytes of the prompt's text; 0 where they are not known.
    pub prompt_bytes: u64,
    /// Messages of the prompt.
    pub n_messages: u64,
    /// Tokens as the server reported them.
    pub usage: Usage,
}

/// Requests that were answered and requests that failed; each attempt of a call counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptsSeen {
    /// Requests with a reply.
    pub n_replied: u64,
    /// Tokens of prompts and replies of these.
    pub replied_tokens: u64,
    /// Requests that ended with an error.
    pub n_failed: u64,
    /// Tokens of these that may be billed.
    pub failed_tokens: u64,
}

impl AttemptsSeen {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            n_replied: self.n_replied.saturating_add(other.n_replied),
            replied_tokens: self.replied_tokens.saturating_add(other.replied_tokens),
            n_failed: self.n_failed.saturating_add(other.n_failed),
            failed_tokens: self.failed_tokens.saturating_add(other.failed_tokens),
        }
    }

    fn replied(&mut self, usage: Usage) {
        *self = self.plus(Self {
            n_replied: 1,
            replied_tokens: usage.input.saturating_add(usage.output),
            ..Self::default()
        });
    }

    pub(super) fn failed(&mut self, usage: Usage) {
        *self = self.plus(Self {
            n_failed: 1,
            failed_tokens: usage.input.saturating_add(usage.output),
            ..Self::default()
        });
    }
}

/// Replies of one model that were received before, for [`super::Budget::recall`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelSeen {
    /// Who serves the model.
    pub provider: String,
    /// The model's name there.
    pub model: String,
    /// Its answered and failed requests.
    pub attempts: AttemptsSeen,
    /// Tokens of the longest reply of all.
    pub longest_reply: u64,
    /// The latest replies, oldest first.
    pub latest: Vec<SeenReply>,
}

/// What a model's replies have shown of its tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) attempts: AttemptsSeen,
    mean: RunningMean,
    longest: u64,
    /// Replies until now, with and without a report of their tokens.
    n_replies: u64,
    /// The most tokens per thousand bytes of text; `None` until the server has reported usage.
    ratio: Option<u64>,
    /// Tokens that the server added to a prompt beyond the overhead that is expected.
    added: u64,
    /// The most tokens per image.
    per_image: u64,
    /// Whether a reply was longer than its limit.
    exceeds_limits: bool,
    /// The most units of money that the model has reported for a reply.
    most_units: u128,
}

impl Seen {
    /// Takes in the units of money that the model reports for a reply.
    pub(super) fn reported(&mut self, units: u128) {
        self.most_units = self.most_units.max(units);
    }

    /// The most units of money of a reply until now.
    pub(super) fn most_units(&self) -> u128 {
        self.most_units
    }

    /// Takes a reply in; `limit` is the one that its request had. True if this is the first reply beyond a limit.
    pub(super) fn reply(&mut self, prompt: PromptSize, limit: Option<u64>, usage: Usage) -> bool {
        self.n_replies = self.n_replies.saturating_add(1);
        self.attempts.replied(usage);
        self.prompt(prompt, usage.input);
        self.output(usage.output);
        let is_beyond = limit.is_some_and(|limit| usage.output > limit);
        is_beyond && !std::mem::replace(&mut self.exceeds_limits, true)
    }

    /// Takes in what earlier processes saw.
    pub(super) fn recall(&mut self, seen: &ModelSeen) {
        self.attempts = self.attempts.plus(seen.attempts);
        let n_latest = u64::try_from(seen.latest.len()).unwrap_or(u64::MAX);
        self.n_replies = self.n_replies.saturating_add(n_latest);
        for reply in &seen.latest {
            let overhead = PROMPT_OVERHEAD.saturating_add(reply.n_messages.saturating_mul(MESSAGE_OVERHEAD));
            if reply.prompt_bytes > 0 {
                let prompt = PromptSize { bytes: reply.prompt_bytes, overhead, images: 0 };
                self.prompt(prompt, reply.usage.input);
            }
            self.output(reply.usage.output);
        }
        self.longest = self.longest.max(seen.longest_reply);
    }

    fn output(&mut self, tokens: u64) {
        if tokens > 0 {
            self.mean.add(tokens);
            self.longest = self.longest.max(tokens);
        }
    }

    fn prompt(&mut self, prompt: PromptSize, tokens: u64) {
        if tokens == 0 {
            return;
        }
        if prompt.images > 0 {
            self.per_image = self.per_image.max(tokens.div_ceil(prompt.images));
            return;
        }
        let of_text = tokens.saturating_sub(prompt.overhead);
        self.added = self.added.max(of_text.saturating_sub(prompt.bytes));
        let ratio = of_text.min(prompt.bytes).saturating_mul(PER_MILLE).div_ceil(prompt.bytes.max(1));
        self.ratio = self.ratio.max(Some(ratio));
    }

    /// The limit on a reply's tokens that the server keeps to, if there is one.
    pub(super) fn known_limit(&self, limit: Option<u64>) -> Option<u64> {
        limit.filter(|_| !self.exceeds_limits)
    }

    /// True if a reply was longer than its limit.
    pub(super) fn exceeds_limits(&self) -> bool {
        self.exceeds_limits
    }

    /// Replies until now.
    pub(super) fn n_replies(&self) -> u64 {
        self.n_replies
    }

    /// The mean of the replies' tokens; 0 while none is known.
    pub(super) fn mean_reply(&self) -> u64 {
        self.mean.tokens().unwrap_or(0)
    }

    /// Upper bounds on what a request may use, of which the first is reserved.
    pub(super) fn bounds(&self, prompt: PromptSize, limit: Option<u64>) -> Bounds {
        let limit = self.known_limit(limit);
        let mean = self.mean.tokens().unwrap_or(0);
        let expected = match self.longest {
            0 => DEFAULT_OUTPUT_TOKENS,
            longest => longest.max(mean.saturating_mul(RESERVED_MEANS)),
        };
        // The longest reply until now is a limit that is not too low by much, and without a limit nothing is exact.
        let unanswered = match (self.longest, limit) {
            (0, limit) => limit.unwrap_or(0),
            (longest, Some(limit)) => longest.min(limit),
            (_, None) => mean,
        };
        let usage = |input: u64, output: u64| Usage { input, output, ..Usage::default() };
        Bounds {
            reserved: usage(self.input(prompt, RATIO_MARGIN), limit.unwrap_or(expected)),
            unanswered: usage(self.input(prompt, 1), unanswered),
        }
    }

    /// A bound on the tokens of a prompt: a token for each byte until the server has reported usage, and so many times
    /// the highest ratio of tokens to bytes since.
    fn input(&self, prompt: PromptSize, margin: u64) -> u64 {
        let ratio = self.ratio.map_or(PER_MILLE, |ratio| ratio.saturating_mul(margin).min(PER_MILLE));
        // Of 128 bits, so that no prompt is too long.
        let of_text = (u128::from(prompt.bytes) * u128::from(ratio)).div_ceil(u128::from(PER_MILLE));
        u64::try_from(of_text)
            .unwrap_or(u64::MAX)
            .saturating_add(prompt.overhead)
            .saturating_add(self.added)
            .saturating_add(prompt.images.saturating_mul(self.per_image.max(TOKENS_PER_IMAGE)))
    }
}

/// A running mean of tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunningMean {
    thousandths: Option<u64>,
}

impl RunningMean {
    /// Takes a number in.
    pub(super) fn add(&mut self, tokens: u64) {
        let new = tokens.saturating_mul(FRACTION);
        let mean = match self.thousandths {
            None => new,
            Some(mean) => mean - mean / MEAN_OF + new / MEAN_OF,
        };
        self.thousandths = Some(mean);
    }

    /// The mean in whole tokens; `None` before the first.
    pub(super) fn tokens(&self) -> Option<u64> {
        self.thousandths.map(|mean| mean.div_ceil(FRACTION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Message;

    #[test]
    fn prompts_are_taken_by_their_bytes() {
        let tokens = |texts: &[&str]| {
            input_tokens(&ChatRequest::new(texts.iter().map(|text| Message::user(*text)).collect()))
        };
        assert_eq!((tokens(&[]), tokens(&["a"]), tokens(&["abcd", "efgh"]), tokens(&["ääää"])), (0, 1, 2, 2));
        let mut seen = ChatRequest::new(vec![Message::user("abcd")]);
        seen.messages[0].content.push(ContentPart::Image(ImageSource::Url("https://h/i.png".into())));
        assert_eq!(input_tokens(&seen), 1_001);
    }

    #[test]
    fn the_mean_follows() {
        let mut mean = RunningMean::default();
        assert_eq!(mean.tokens(), None);
        mean.add(100);
        assert_eq!(mean.tokens(), Some(100));
        mean.add(100);
        assert_eq!(mean.tokens(), Some(100));
        (0..100).for_each(|_| mean.add(10));
        assert!(mean.tokens().is_some_and(|tokens| (10..=11).contains(&tokens)), "{mean:?}");
        mean.add(u64::MAX);
        mean.add(u64::MAX);
    }
}
