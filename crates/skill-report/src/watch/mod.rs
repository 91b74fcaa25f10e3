//! Runs of a directory as they are now, and what is new in them: for those who look on from outside.
//!
//! `skillrl serve` and `skillrl mcp` are two of them.
//!
//! ```no_run
//! use skill_report::watch::{Runs, Told, Watches};
//! use std::sync::Arc;
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn look() -> std::io::Result<()> {
//! // Without the terms of the runs: their prices and caps stay unknown.
//! let (runs, watches) = (Arc::new(Runs::open("runs".as_ref(), |_| Ok(None))?), Watches::default());
//! let listing = runs.fresh().await;
//! for (found, row) in listing.runs() {
//!     println!("{}: {}", row.name, row.state.as_str());
//!     let (watch, mut changes) = watches.watch(&runs, &row.name, &found.path, &CancellationToken::new());
//!     let mut told = Told::default();
//!     while changes.changed().await.is_ok() {
//!         for line in watch.news(&mut told).lines {
//!             println!("{}", line.text);
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! It writes nothing, works beside the process that trains, and keeps no state but what it has read. Runs are
//! found by listing the directory ([`Runs`]), never by joining what somebody sent, and symbolic links that leave the
//! directory are not followed; before a run is read in depth, [`leaving_link`] says whether there is one in it.

mod discover;
mod log;
mod news;
mod rollouts;
mod row;
mod runs;
mod signature;
mod spend;

pub use discover::{Found, MAX_DEPTH, leaving_link};
pub use log::Line;
pub use news::{News, Now, StageNow, Telling, Told, Watch, Watches, report_version};
pub use rollouts::{NewRollouts, RolloutView, ShownTurn};
pub use row::Row;
pub use runs::{Listing, Runs};
pub use spend::{Caps, Spent, Terms, TermsOf, TermsRead};
