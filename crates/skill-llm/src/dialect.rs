//! What differs between the interfaces of providers and does not lie in the modules that speak them, as one table.
//!
//! A new dialect is a value of [`Dialect`]; the compiler then names what has to be said of it here.
//!
//! # Invariants
//!
//! - A reply without content, tool call or refusal is an error in every dialect, unless it says why it is empty; it
//!   never becomes a reply of the journal. Held by `a_reply_without_content_is_a_fault_unless_it_says_why`.
//! - No bytes that a server sends, or a program prints, make a dialect panic. Held by `no_bytes_make_it_panic`,
//!   `no_json_makes_it_panic`, `no_choice_makes_it_panic`, `nothing_that_is_printed_makes_it_panic`.

use crate::http::KeyHeader;

skill_core::named_enum! {
    /// How a provider is spoken to; the names are kinds of models in configurations.
    pub enum Dialect {
        /// Chat Completions, see [`crate::openai`].
        ChatCompletions = "openai",
        /// Messages, see [`crate::anthropic`].
        Messages = "anthropic",
        /// Responses, see [`crate::responses`].
        Responses = "responses",
    }
}

impl Dialect {
    /// The formats in which a response schema can be requested, by their names in configurations; the best first.
    pub const fn response_formats(self) -> &'static [&'static str] {
        match self {
            Self::ChatCompletions => &["json_schema", "json_object_schema", "json_object", "off"],
            Self::Messages => &["json_schema", "tool", "off"],
            Self::Responses => &["json_schema", "json_object", "off"],
        }
    }

    /// The most tokens of a reply where neither request nor configuration says; `None` where such a request has no limit.
    pub const fn default_max_tokens(self) -> Option<u32> {
        match self {
            Self::ChatCompletions | Self::Responses => None,
            Self::Messages => Some(crate::anthropic::DEFAULT_MAX_TOKENS),
        }
    }

    /// The provider at whose own address a model is, where neither provider nor address is given; `None` for the
    /// configuration's default address.
    pub const fn implied_provider(self) -> Option<&'static str> {
        match self {
            Self::ChatCompletions | Self::Responses => None,
            Self::Messages => Some("anthropic"),
        }
    }

    /// The header that a key is in, where nothing else is said.
    pub const fn key_header(self) -> KeyHeader {
        match self {
            Self::ChatCompletions | Self::Responses => KeyHeader::Bearer,
            Self::Messages => KeyHeader::XApiKey,
        }
    }

    /// The headers of a request for the list of models.
    pub(crate) const fn list_headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ChatCompletions | Self::Responses => &[],
            Self::Messages => crate::anthropic::HEADERS,
        }
    }

    /// The query of a request for the list of models.
    pub(crate) const fn list_query(self) -> Option<&'static str> {
        match self {
            Self::ChatCompletions | Self::Responses => None,
            // Else the list ends after twenty.
            Self::Messages => Some("limit=1000"),
        }
    }
}
