//! What the caps and the pace of a run need to know of each attempt, and what they grant it.

use super::amount::Prices;
use super::estimate::PromptSize;
use crate::chat::ModelId;
use skill_core::Usage;
use std::time::Duration;

/// One attempt, as far as it decides what it may use.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AttemptSize {
    /// The model that is asked.
    pub(super) model: ModelId,
    /// The size of its prompt.
    pub(super) prompt: PromptSize,
    /// The most tokens of its reply; `None` where nothing limits them.
    pub(super) max_reply_tokens: Option<u64>,
    /// The fewest tokens that its reply can be limited to; `None` where the model takes no limit.
    pub(super) least_limit: Option<u64>,
    /// What its tokens cost.
    pub(super) prices: Prices,
}

/// What became of an attempt that had something reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptUse {
    /// A reply with these tokens, and the units of money that the model reports for it.
    Replied(Usage, Option<u128>),
    /// An error, and so many tokens that may be billed.
    Failed(Usage),
    /// The call was dropped before its reply, and so many tokens may be billed.
    Dropped(Usage),
    /// Nothing was sent.
    Unsent,
}

/// One request, as far as it decides when it may be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PacedRequest {
    /// The model that is asked.
    pub(super) model: ModelId,
    /// Whether a schema constrains the reply: such replies take longer.
    pub(super) has_schema: bool,
    /// An estimate of its prompt.
    pub(super) input_tokens: u64,
}

impl PacedRequest {
    pub(super) fn new(model: ModelId, has_schema: bool, input_tokens: u64) -> Self {
        Self { model, has_schema, input_tokens }
    }
}

/// A place among the requests in flight, with the tokens that the rates were charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PaceGrant {
    /// An estimate of the tokens of prompt and reply.
    pub(super) reserved_tokens: u64,
}

/// How a request in flight ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PaceEnd {
    /// A reply.
    Replied {
        /// Its tokens.
        usage: Usage,
        /// The tokens that its latency is measured by.
        paced_tokens: u64,
        /// How long it took.
        took: Duration,
    },
    /// The provider limits the rate.
    RateLimited {
        /// How long the request had been out.
        took: Duration,
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// Anything else.
    Failed,
}
