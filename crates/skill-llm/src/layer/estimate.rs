//! What a request will use, before it is sent.

use crate::chat::{ChatRequest, ContentPart, ImageSource};
use crate::error::ErrorClass;
use skill_core::Usage;

/// How many bytes of text a token is taken to have.
const BYTES_PER_TOKEN: usize = 4;
/// What an image is taken to cost, whatever its size: providers charge by its area, which is not known here.
const TOKENS_PER_IMAGE: u64 = 1_000;
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
    }
    bytes += request.tools.iter().map(|tool| tool.name.len() + tool.description.len()).sum::<usize>();
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN))
        .unwrap_or(u64::MAX)
        .saturating_add(images * TOKENS_PER_IMAGE)
}

/// What a provider may bill for a request that was sent and ended like this: where no answer came, or one that cannot be read, at least the prompt.
///
/// A status of the provider's own, such as one for too many requests, is not billed.
pub(crate) fn may_be_billed(class: ErrorClass, request: &ChatRequest) -> Usage {
    match class {
        ErrorClass::Cancelled | ErrorClass::Timeout | ErrorClass::Truncated | ErrorClass::InvalidReply => {
            Usage { input: input_tokens(request), ..Usage::default() }
        }
        ErrorClass::RateLimited
        | ErrorClass::QuotaExhausted
        | ErrorClass::Authentication
        | ErrorClass::BadRequest
        | ErrorClass::ContextTooLong
        | ErrorClass::Refused
        | ErrorClass::ServerError
        | ErrorClass::Connection
        | ErrorClass::Budget
        | ErrorClass::Journal
        | ErrorClass::NotRecorded
        | ErrorClass::Configuration => Usage::default(),
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
