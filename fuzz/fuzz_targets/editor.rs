//! See `fuzz_targets::editor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_targets::editor(data));
