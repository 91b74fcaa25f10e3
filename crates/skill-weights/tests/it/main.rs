//! Fine-tuning over the seam, with a model of plain numbers: no tensor library is built for it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests say what they expect"
)]

#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
mod bigram;
#[path = "../../../skill-train/tests/it/byte_codec.rs"]
mod codec;
mod damage;
#[path = "../../../skill-pipeline/tests/support/damages.rs"]
mod damages;
mod demos;
mod faults;
mod games;
mod resume;
mod rl;
mod rl_bank;
mod runs;
mod setup;
mod world;
