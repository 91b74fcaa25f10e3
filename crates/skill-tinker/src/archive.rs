//! Archives of adapters: a tar file, compressed with gzip or not.

use std::io::Read as _;

use flate2::read::GzDecoder;
use skill_train::lora;
use tar::Archive;

/// The first bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The most bytes of all files.
const MAX_BYTES: u64 = 8 << 30;

/// The configuration and the weights of the adapter in an archive, by the names that peft has for them.
pub(crate) fn adapter_files(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let unpacked = if bytes.starts_with(&GZIP) {
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes)
            .take(MAX_BYTES)
            .read_to_end(&mut unpacked)
            .map_err(|error| format!("its archive cannot be unpacked: {error}"))?;
        unpacked
    } else {
        bytes.to_vec()
    };
    let bad = |error: std::io::Error| format!("its archive cannot be read: {error}");
    let mut found = Vec::new();
    for entry in Archive::new(unpacked.as_slice()).entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        // Only names are looked at, and nothing is written under a path of the archive.
        let name = entry.path().map_err(bad)?.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name.filter(|name| [lora::CONFIG_FILE, lora::WEIGHTS_FILE].contains(&name.as_str()))
        else {
            continue;
        };
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(bad)?;
        found.push((name, content));
    }
    for name in [lora::CONFIG_FILE, lora::WEIGHTS_FILE] {
        if !found.iter().any(|(found, _)| found == name) {
            return Err(format!("its archive has no {name}"));
        }
    }
    found.sort();
    Ok(found)
}

/// An archive with these files.
#[cfg(any(test, feature = "server"))]
pub(crate) fn archive(files: &[(String, Vec<u8>)]) -> std::io::Result<Vec<u8>> {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, bytes.as_slice())?;
    }
    builder.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_comes_out_of_an_archive_and_nothing_else_does() {
        let file = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
        let files = [
            file("a/adapter_model.safetensors", b"weights"),
            file("a/README.md", b"words"),
            file("a/adapter_config.json", b"{}"),
        ];
        let found = adapter_files(&archive(&files).unwrap()).unwrap();
        assert_eq!(
            found,
            [file("adapter_config.json", b"{}"), file("adapter_model.safetensors", b"weights")]
        );
        assert!(adapter_files(&archive(&files[1..]).unwrap()).is_err());
        assert!(adapter_files(b"no archive").is_err());
    }
}
