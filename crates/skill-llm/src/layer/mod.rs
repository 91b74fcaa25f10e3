//! Layers: models around a model.
//!
//! Outermost first: [`journaled`], then whatever repeats, bounds or paces what is really sent.

pub mod journaled;

pub use journaled::{Journaled, NotInRecording, Recording};
