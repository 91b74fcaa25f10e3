//! Files of models that are not what their names promise, told by their first bytes.
//!
//! It knows a pointer of Git LFS, which lies in the place of a file that was not downloaded, and the header of a GGUF
//! file as far as the types of its tensors.

#[cfg(any(test, feature = "candle"))]
use crate::error::TensorFault;
use crate::error::TrainError;
#[cfg(feature = "candle")]
use candle_core::quantized::gguf_file::Content;
use skill_llm::text_file;
use std::fs::File;
#[cfg(any(test, feature = "candle"))]
use std::io::BufReader;
use std::io::Read;
#[cfg(feature = "candle")]
use std::io::Seek as _;
use std::path::Path;

/// What each pointer of Git LFS begins with.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// Refuses a pointer of Git LFS.
///
/// # Errors
/// [`TrainError::File`]; a file that cannot be read is the business of who reads it.
pub(crate) fn refuse_pointer(path: &Path) -> Result<(), TrainError> {
    let mut head = [0; LFS_POINTER.len()];
    let is_pointer = File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok();
    if is_pointer && head == LFS_POINTER {
        let fault =
            "it is a pointer of Git LFS, not the file itself: run `git lfs pull`, or download the file";
        return Err(TrainError::file(path, fault));
    }
    Ok(())
}

/// The text of a model's file.
///
/// # Errors
/// [`TrainError::Io`], and [`TrainError::File`] for a pointer of Git LFS.
pub(crate) fn read_text(path: &Path) -> Result<String, TrainError> {
    refuse_pointer(path)?;
    text_file::read(path).map_err(|source| TrainError::io(path, source))
}

/// As [`read_text`]; `None` for a file that does not exist.
///
/// # Errors
/// As [`read_text`].
#[cfg(feature = "candle")]
pub(crate) fn optional_text(path: &Path) -> Result<Option<String>, TrainError> {
    if path.try_exists().is_ok_and(|exists| !exists) { Ok(None) } else { read_text(path).map(Some) }
}

/// The types of GGUF's tensors by their numbers, and whether they can be read.
#[cfg(any(test, feature = "candle"))]
const GGUF_TYPES: [(u32, &str, bool); 35] = [
    (0, "F32", true),
    (1, "F16", true),
    (2, "Q4_0", true),
    (3, "Q4_1", true),
    (6, "Q5_0", true),
    (7, "Q5_1", true),
    (8, "Q8_0", true),
    (9, "Q8_1", true),
    (10, "Q2_K", true),
    (11, "Q3_K", true),
    (12, "Q4_K", true),
    (13, "Q5_K", true),
    (14, "Q6_K", true),
    (15, "Q8_K", true),
    (16, "IQ2_XXS", false),
    (17, "IQ2_XS", false),
    (18, "IQ3_XXS", false),
    (19, "IQ1_S", false),
    (20, "IQ4_NL", false),
    (21, "IQ3_S", false),
    (22, "IQ2_S", false),
    (23, "IQ4_XS", false),
    (24, "I8", false),
    (25, "I16", false),
    (26, "I32", false),
    (27, "I64", false),
    (28, "F64", false),
    (29, "IQ1_M", false),
    (30, "BF16", true),
    (34, "TQ1_0", false),
    (35, "TQ2_0", false),
    (36, "IQ4_NL_4_4", false),
    (37, "IQ4_NL_4_8", false),
    (38, "IQ4_NL_8_8", false),
    (39, "MXFP4", false),
];

/// Opens a GGUF file and reads its header, of version 2 or 3.
///
/// The library divides by the alignment and multiplies the sizes of a tensor unchecked, so both are checked here.
///
/// # Errors
/// [`TrainError::Io`], [`TrainError::File`] for a file that is cut off, damaged or is not a GGUF file, and
/// [`TrainError::Tensor`] for a quantization that is not read.
#[cfg(feature = "candle")]
pub(crate) fn open_gguf(path: &Path) -> Result<(BufReader<File>, Content), TrainError> {
    let file = File::open(path).map_err(|source| TrainError::io(path, source))?;
    let mut reader = BufReader::new(file);
    match Header::read(&mut reader).map(|header| header.alignment) {
        Some(0) => return Err(TrainError::file(path, "`general.alignment` is 0")),
        Some(_) => {}
        None => return Err(gguf_fault(path, &"its header ends early or has an unknown type")),
    }
    reader.rewind().map_err(|source| TrainError::io(path, source))?;
    let content = Content::read(&mut reader).map_err(|error| gguf_fault(path, &error))?;
    for (name, info) in &content.tensor_infos {
        let n_values = info.shape.dims().iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        if n_values.is_none() {
            return Err(TrainError::file(
                path,
                format!("tensor {name}: its shape {:?} is too large", info.shape),
            ));
        }
    }
    Ok((reader, content))
}

/// What is wrong with a GGUF file that the library did not read, for the reason that it gives.
#[cfg(any(test, feature = "candle"))]
fn gguf_fault(path: &Path, reason: &dyn std::fmt::Display) -> TrainError {
    if let Err(pointer) = refuse_pointer(path) {
        return pointer;
    }
    let header = File::open(path).ok().and_then(|file| Header::read(BufReader::new(file)));
    match header.and_then(|header| header.unreadable()) {
        Some((tensor, found)) => {
            let known =
                GGUF_TYPES.iter().filter(|(_, _, is_read)| *is_read).map(|(_, name, _)| *name).collect();
            TrainError::Tensor {
                path: path.to_owned(),
                tensor,
                fault: TensorFault::Quantization { found, known },
            }
        }
        None => TrainError::file(path, format!("not a GGUF file, or cut off: {reason}")),
    }
}

/// What is read of the header of a GGUF file.
#[cfg(any(test, feature = "candle"))]
struct Header {
    /// The alignment of its tensors; the default where no key names another one.
    #[cfg_attr(
        not(feature = "candle"),
        expect(dead_code, reason = "checked where the library reads the file")
    )]
    alignment: u64,
    /// Tensors with the numbers of their types.
    tensors: Vec<(String, u32)>,
}

#[cfg(any(test, feature = "candle"))]
impl Header {
    /// Reads a header of version 2 or 3; `None` for anything else, and for one that is cut off.
    fn read(reader: impl Read) -> Option<Self> {
        /// More tensors and keys than any model has.
        const MAX_ENTRIES: u64 = 1 << 20;
        let mut fields = Fields(reader);
        if &fields.bytes::<4>()? != b"GGUF" || !matches!(fields.u32()?, 2 | 3) {
            return None;
        }
        let (n_tensors, n_keys) = (fields.u64()?, fields.u64()?);
        if n_tensors > MAX_ENTRIES || n_keys > MAX_ENTRIES {
            return None;
        }
        let mut alignment = 32;
        for _ in 0..n_keys {
            let key = fields.text()?;
            match (fields.u32()?, key.as_str()) {
                (0 | 1, "general.alignment") => {
                    alignment = u64::from(fields.bytes::<1>().map(u8::from_le_bytes)?);
                }
                (2 | 3, "general.alignment") => {
                    alignment = u64::from(fields.bytes().map(u16::from_le_bytes)?);
                }
                (4 | 5, "general.alignment") => alignment = u64::from(fields.u32()?),
                (kind, _) => fields.skip_value(kind)?,
            }
        }
        let tensors = (0..n_tensors).map(|_| {
            let name = fields.text()?;
            let n_dimensions = fields.u32()?;
            fields.skip(u64::from(n_dimensions).checked_mul(8)?)?;
            let kind = fields.u32()?;
            fields.skip(8)?;
            Some((name, kind))
        });
        Some(Self { alignment, tensors: tensors.collect::<Option<_>>()? })
    }

    /// The first tensor of a type that is not read, with the name of the type.
    fn unreadable(&self) -> Option<(String, String)> {
        self.tensors.iter().find_map(|(tensor, kind)| {
            let known = GGUF_TYPES.iter().find(|(number, _, _)| number == kind);
            match known {
                Some((_, _, true)) => None,
                Some((_, name, false)) => Some((tensor.clone(), (*name).to_owned())),
                None => Some((tensor.clone(), format!("number {kind}"))),
            }
        })
    }
}

/// The fields of a GGUF header, one after the other.
#[cfg(any(test, feature = "candle"))]
struct Fields<R>(R);

#[cfg(any(test, feature = "candle"))]
impl<R: Read> Fields<R> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<String> {
        /// Names of tensors and keys are much shorter.
        const MAX_BYTES: u64 = 1 << 16;
        let n_bytes = self.u64().filter(|n_bytes| *n_bytes <= MAX_BYTES)?;
        let mut bytes = Vec::new();
        self.0.by_ref().take(n_bytes).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn skip(&mut self, n_bytes: u64) -> Option<()> {
        let skipped = std::io::copy(&mut self.0.by_ref().take(n_bytes), &mut std::io::sink()).ok()?;
        (skipped == n_bytes).then_some(())
    }

    fn skip_value(&mut self, kind: u32) -> Option<()> {
        const TEXT: u32 = 8;
        const LIST: u32 = 9;
        let size = |kind: u32| match kind {
            0 | 1 | 7 => Some(1),
            2 | 3 => Some(2),
            4..=6 => Some(4),
            10..=12 => Some(8),
            _ => None,
        };
        match kind {
            TEXT => {
                let n_bytes = self.u64()?;
                self.skip(n_bytes)
            }
            LIST => {
                let (of, n_values) = (self.u32()?, self.u64()?);
                match size(of) {
                    Some(size) => self.skip(n_values.checked_mul(size)?),
                    None if of == TEXT => (0..n_values).try_for_each(|_| self.skip_value(TEXT)),
                    None => None,
                }
            }
            kind => self.skip(size(kind)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    /// A header with keys of each shape, and tensors of these types.
    fn header(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = [b"GGUF".as_slice(), &3_u32.to_le_bytes()].concat();
        bytes.extend((kinds.len() as u64).to_le_bytes());
        bytes.extend(3_u64.to_le_bytes());
        bytes.extend([text("a"), 8_u32.to_le_bytes().to_vec(), text("value")].concat());
        bytes.extend([text("b"), 9_u32.to_le_bytes().to_vec(), 8_u32.to_le_bytes().to_vec()].concat());
        bytes.extend([2_u64.to_le_bytes().to_vec(), text("x"), text("yy")].concat());
        bytes.extend([text("c"), 6_u32.to_le_bytes().to_vec(), 1.5_f32.to_le_bytes().to_vec()].concat());
        for (index, kind) in kinds.iter().enumerate() {
            bytes.extend(text(&format!("blk.{index}.weight")));
            bytes.extend(2_u32.to_le_bytes());
            bytes.extend([32_u64.to_le_bytes(), 32_u64.to_le_bytes()].concat());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(0_u64.to_le_bytes());
        }
        bytes
    }

    #[track_caller]
    fn check(bytes: &[u8], expect: Option<(&str, &str)>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.gguf");
        std::fs::write(&path, bytes).unwrap();
        match (gguf_fault(&path, &"the reason"), expect) {
            (
                TrainError::Tensor { tensor, fault: TensorFault::Quantization { found, known }, .. },
                Some(expect),
            ) => {
                assert_eq!((tensor.as_str(), found.as_str()), expect);
                assert!(known.contains(&"Q4_K") && !known.contains(&"IQ4_NL"), "{known:?}");
            }
            (TrainError::File { .. }, None) => {}
            (error, expect) => panic!("{error} is not {expect:?}"),
        }
    }

    #[test]
    fn a_quantization_that_is_not_read_is_named_with_its_tensor() {
        check(&header(&[0, 20]), Some(("blk.1.weight", "IQ4_NL")));
        for (kind, name) in [(16, "IQ2_XXS"), (21, "IQ3_S"), (23, "IQ4_XS"), (34, "TQ1_0"), (39, "MXFP4")] {
            check(&header(&[12, kind, 20]), Some(("blk.1.weight", name)));
        }
        check(&header(&[99]), Some(("blk.0.weight", "number 99")));
        check(&header(&[0, 30, 12]), None);
        let whole = header(&[20]);
        check(whole.get(..whole.len() - 20).unwrap(), None);
        check(b"GGUF", None);
        check(b"", None);
    }

    #[test]
    fn a_pointer_of_git_lfs_is_no_model() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        std::fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n").unwrap();
        for error in [
            refuse_pointer(&path).unwrap_err(),
            read_text(&path).unwrap_err(),
            gguf_fault(&path, &""),
            crate::weights::TensorFile::open(&path).unwrap_err(),
        ] {
            assert!(
                matches!(&error, TrainError::File { fault, .. } if fault.contains("git lfs pull")),
                "{error}"
            );
        }
    }
}
