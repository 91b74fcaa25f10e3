//! The crate from outside: corpora, properties and rules.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

#[cfg(feature = "yaml")]
#[expect(clippy::disallowed_methods, reason = "a test reads the sources of the workspace")]
#[path = "../support/all_files.rs"]
mod all_files;
mod anchors_corpus;
#[path = "../support/dependencies.rs"]
mod dependencies;
mod editor_properties;
mod editor_rules;
mod json_extract;
mod json_properties;
mod lean;
#[cfg(feature = "yaml")]
mod lint;
#[cfg(feature = "yaml")]
mod package;
mod replies_corpus;
mod rules;
mod search;
