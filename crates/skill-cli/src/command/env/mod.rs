//! `skillrl env`: looks at an environment before anything is paid for.

mod check;
mod play;

pub(crate) use check::{check, find_item};
pub(crate) use play::play;
