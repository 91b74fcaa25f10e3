//! `skillrl env`: looks at an environment before anything is paid for.

mod check;
mod export;
mod play;
mod serve;

pub(crate) use check::check;
pub(crate) use export::export;
pub(crate) use play::play;
pub(crate) use serve::serve;
