//! Bodies of responses as text: without a compression, and without a byte-order mark.
//!
//! No request asks for a compressed body, but a server or a proxy may send one all the same (RFC 9110, 12.5.3).

use super::{HttpResponse, MAX_RESPONSE_BYTES};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use skill_core::encoding::{self, EncodingFault};
use std::io::{self, Read};

/// What every body in gzip begins with, and no text.
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";

/// A body that is not text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyFault {
    /// A compression that is not read here.
    #[error(
        "the body has the content encoding `{coding}`, which is not read; have the server or its proxy send it as it is"
    )]
    Coding {
        /// Its name.
        coding: String,
    },
    /// A body that is not compressed as its header says.
    #[error("the body has the content encoding `{coding}` and cannot be unpacked: {message}")]
    Packed {
        /// The compression.
        coding: String,
        /// What is wrong with it.
        message: String,
    },
    /// Bytes that are not text.
    #[error("the body {0}")]
    Encoding(EncodingFault),
}

impl HttpResponse {
    /// The text of the body, unpacked where it is compressed.
    ///
    /// # Errors
    ///
    /// A body in a compression other than gzip and deflate, a damaged one, and one that is not text.
    pub fn text(&self) -> Result<String, BodyFault> {
        let codings = self.header("content-encoding").unwrap_or_default();
        // The last one was applied last.
        let codings = codings.split(',').map(|coding| coding.trim().to_ascii_lowercase()).rev();
        let mut body: Option<Vec<u8>> = None;
        for coding in codings.filter(|coding| !coding.is_empty() && coding != "identity") {
            let packed: &[u8] = body.as_deref().unwrap_or(&self.body);
            let unpacked = match coding.as_str() {
                // A proxy that has unpacked it may leave the header.
                "gzip" | "x-gzip" if !packed.starts_with(GZIP_MAGIC) => continue,
                "gzip" | "x-gzip" => unpacked(MultiGzDecoder::new(packed)),
                "deflate" => {
                    unpacked(ZlibDecoder::new(packed)).or_else(|_| unpacked(DeflateDecoder::new(packed)))
                }
                _ => return Err(BodyFault::Coding { coding }),
            };
            body = Some(unpacked.map_err(|error| BodyFault::Packed { coding, message: error.to_string() })?);
        }
        let mut body = body.unwrap_or_else(|| self.body.clone());
        if body.starts_with(GZIP_MAGIC) {
            let coding = "gzip".to_owned();
            body = unpacked(MultiGzDecoder::new(body.as_slice()))
                .map_err(|error| BodyFault::Packed { coding, message: error.to_string() })?;
        }
        match self.charset() {
            // Each byte is the character of its number, as Windows-1252 has it but for a few signs.
            Some(charset) if LATIN_1.contains(&charset.as_str()) && std::str::from_utf8(&body).is_err() => {
                Ok(body.into_iter().map(windows_1252).collect())
            }
            Some(_) | None => encoding::decode(body).map_err(BodyFault::Encoding),
        }
    }

    /// The encoding that the header names, in lower case.
    fn charset(&self) -> Option<String> {
        let parameters = self.header("content-type")?.split(';').skip(1);
        parameters
            .map(|part| part.trim().to_ascii_lowercase())
            .find_map(|part| Some(part.strip_prefix("charset=")?.trim_matches(['"', '\'', ' ']).to_owned()))
    }
}

/// Names of the encodings with one byte for each character of Western Europe.
const LATIN_1: [&str; 6] = ["iso-8859-1", "latin1", "latin-1", "windows-1252", "cp1252", "iso-8859-15"];
/// What Windows-1252 has for the bytes from 0x80 to 0x9f.
const WINDOWS_SIGNS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

fn windows_1252(byte: u8) -> char {
    let sign = byte.checked_sub(0x80).and_then(|at| WINDOWS_SIGNS.get(usize::from(at)));
    sign.copied().unwrap_or(char::from(byte))
}

fn unpacked(packed: impl Read) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(MAX_RESPONSE_BYTES).unwrap_or(u64::MAX);
    let mut body = Vec::new();
    packed.take(limit.saturating_add(1)).read_to_end(&mut body)?;
    if body.len() > MAX_RESPONSE_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_RESPONSE_BYTES} bytes")));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::{DeflateEncoder, GzEncoder, ZlibEncoder};

    #[track_caller]
    fn check(coding: &str, body: &[u8], expect: Option<&str>) {
        let headers = vec![("Content-Encoding".to_owned(), coding.to_owned())];
        let response = HttpResponse { status: 200, headers, body: body.to_vec() };
        assert_eq!(response.text().ok().as_deref(), expect, "{coding}");
    }

    fn all(mut reader: impl Read) -> Vec<u8> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn bodies_are_unpacked_and_lose_their_mark() {
        let text = "\u{feff}{\"a\": 1}";
        let plain = Some("{\"a\": 1}");
        let bytes = text.as_bytes();
        let gzip = all(GzEncoder::new(bytes, Compression::fast()));
        for coding in ["gzip", "GZIP", "x-gzip", "identity, gzip", "identity", ""] {
            check(coding, &gzip, plain);
        }
        check("deflate", &all(ZlibEncoder::new(bytes, Compression::fast())), plain);
        check("deflate", &all(DeflateEncoder::new(bytes, Compression::fast())), plain);
        check(
            "deflate, gzip",
            &all(GzEncoder::new(&*all(ZlibEncoder::new(bytes, Compression::fast())), Compression::fast())),
            plain,
        );
        check("gzip", bytes, plain);
        check("br", b"\x0b\x02\x80", None);
        check("gzip", gzip.get(..gzip.len() / 2).unwrap(), None);
        check("", b"\xff", None);
        let bomb = vec![0; MAX_RESPONSE_BYTES + 1];
        check("gzip", &all(GzEncoder::new(&*bomb, Compression::fast())), None);
    }
}
