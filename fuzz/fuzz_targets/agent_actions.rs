//! See `fuzz_targets::agent_actions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_targets::agent_actions(data));
