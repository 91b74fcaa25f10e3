//! Files with a checksum of their own, which are verified without any other file.

use super::atomic::{json_bytes, write};
use crate::error::PipelineError;
use serde::Serialize;
use skill_core::canonical::hex_sha256;
use std::path::Path;

/// The text before the checksum of a sealed file, which is its last field.
const SEAL: &str = ",\n  \"checksum\": \"";
/// The text behind it.
const SEAL_END: &str = "\"\n}\n";

/// An object as [`write_json`](super::atomic::write_json) writes it, with one more field at its end: `checksum`, the
/// SHA-256 of all bytes before it.
///
/// # Errors
///
/// A value that cannot be written as JSON, named by the file.
pub fn sealed_json_bytes(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, PipelineError> {
    let mut bytes = json_bytes(path, value)?;
    // Of an object with fields; nothing else is sealed.
    if bytes.ends_with(b"\n}\n") {
        bytes.truncate(bytes.len() - b"\n}\n".len());
        let checksum = hex_sha256(&bytes);
        bytes.extend_from_slice(format!("{SEAL}{checksum}{SEAL_END}").as_bytes());
    }
    Ok(bytes)
}

/// True if a sealed file is as it was written; `None` for one without a checksum, as older versions wrote it.
pub(super) fn is_sealed_whole(bytes: &[u8]) -> Option<bool> {
    let seal = SEAL.as_bytes();
    let at = bytes.windows(seal.len()).rposition(|window| window == seal)?;
    let (content, checksum) = bytes.split_at(at);
    Some(checksum == format!("{SEAL}{}{SEAL_END}", hex_sha256(content)).as_bytes())
}

/// Writes an object as [`sealed_json_bytes`] makes it, whole or not at all.
///
/// # Errors
///
/// A value that cannot be written as JSON, and a file that cannot be written.
pub fn write_sealed_json(path: &Path, value: &impl Serialize) -> Result<(), PipelineError> {
    write(path, &sealed_json_bytes(path, value)?)
}

/// The text around the checksum of a page, which is its last line.
const PAGE_SEAL: [&str; 2] = ["<!-- sha256 ", " -->\n"];

/// A page of HTML with one more line at its end: a comment with the SHA-256 of all bytes before it.
pub fn sealed_page(page: &str) -> String {
    let page = if page.ends_with('\n') { page.to_owned() } else { format!("{page}\n") };
    let [before, behind] = PAGE_SEAL;
    let checksum = hex_sha256(page.as_bytes());
    format!("{page}{before}{checksum}{behind}")
}

/// True if a page is as it was written; `None` for one without a checksum, as older versions wrote it.
pub(super) fn is_page_whole(bytes: &[u8]) -> Option<bool> {
    let [before, behind] = PAGE_SEAL;
    let at = bytes.windows(before.len()).rposition(|window| window == before.as_bytes())?;
    let (page, checksum) = bytes.split_at(at);
    Some(checksum == format!("{before}{}{behind}", hex_sha256(page)).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn any_change_to_a_sealed_file_is_found() {
        let bytes = sealed_json_bytes(Path::new("x"), &json!({"a": [1.5, {}], "b": "x"})).unwrap();
        assert_eq!(is_sealed_whole(&bytes), Some(true));
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["a"], json!([1.5, {}]));
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_ne!(is_sealed_whole(&changed), Some(true), "byte {place}");
        }
        assert_eq!(is_sealed_whole(&json_bytes(Path::new("x"), &json!({"a": 1})).unwrap()), None);
    }

    #[test]
    fn any_change_to_a_sealed_page_is_found() {
        let page = sealed_page("<!doctype html>\n<p>A page</p>");
        let bytes = page.as_bytes();
        assert_eq!(is_page_whole(bytes), Some(true));
        for place in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[place] ^= 1;
            assert_ne!(is_page_whole(&changed), Some(true), "byte {place}");
            assert_ne!(is_page_whole(&bytes[..place]), Some(true), "{place} bytes");
        }
        assert_eq!(is_page_whole(b"<p>A page</p>"), None);
    }
}
