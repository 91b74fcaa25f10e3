//! Files of weights: safetensors, read without mmap and written byte for byte as the reference library writes them.
//!
//! [`TensorFile`] reads one file tensor by tensor, [`WeightFiles`] a model directory of one file or of several with an
//! index, and [`encode`] makes the bytes of a file. Everything is converted to f32 on the way in and written as f32.

mod convert;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use skill_core::python_json;

use crate::error::{TensorFault, TrainError};
use crate::model_file;

/// The largest header that is read, as in the reference library.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The one file of a model that is not split.
const SINGLE_FILE: &str = "model.safetensors";
/// The index of a model whose weights lie in several files.
const INDEX_FILE: &str = "model.safetensors.index.json";

/// A tensor in memory: f32 values, row-major.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostTensor {
    /// Size of each dimension.
    pub shape: Vec<usize>,
    /// The values; as many as the product of the shape.
    pub values: Vec<f32>,
}

/// The entry of a tensor in a file's header.
#[derive(Debug, Clone, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// A safetensors file whose header was read and checked.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    source: Source,
    data_start: u64,
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

/// Where the bytes of a file are.
#[derive(Debug)]
enum Source {
    Disk(File),
    Memory(Vec<u8>),
}

impl Source {
    fn read_at(&self, position: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        match self {
            Self::Disk(file) => {
                let mut file = file;
                file.seek(SeekFrom::Start(position))?;
                file.read_exact(bytes)
            }
            Self::Memory(all) => {
                let mut all = Cursor::new(all);
                all.set_position(position);
                all.read_exact(bytes)
            }
        }
    }
}

impl TensorFile {
    /// Opens a file and checks that its header describes exactly the bytes that follow it.
    ///
    /// # Errors
    /// [`TrainError::Io`] if it cannot be read, [`TrainError::File`] if it is cut off or no safetensors file.
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        model_file::refuse_pointer(path)?;
        let file = File::open(path).map_err(|source| TrainError::io(path, source))?;
        let n_bytes = file.metadata().map_err(|source| TrainError::io(path, source))?.len();
        Self::new(path, Source::Disk(file), n_bytes)
    }

    /// Reads the content of a file; `path` is for errors.
    ///
    /// # Errors
    /// As [`TensorFile::open`].
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, TrainError> {
        Self::new(path, Source::Memory(bytes.to_vec()), bytes.len() as u64)
    }

    fn new(path: &Path, source: Source, n_bytes: u64) -> Result<Self, TrainError> {
        let mut length = [0; 8];
        if n_bytes < 8 {
            return Err(TrainError::file(
                path,
                format!("{n_bytes} bytes are too few for a safetensors file"),
            ));
        }
        source.read_at(0, &mut length).map_err(|source| TrainError::io(path, source))?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > MAX_HEADER_BYTES || header_bytes + 8 > n_bytes {
            return Err(TrainError::file(path, "not a safetensors file, or cut off in its header"));
        }
        let n_header =
            usize::try_from(header_bytes).expect("a header of at most 100 MB fits into the memory");
        let mut header = vec![0; n_header];
        source.read_at(8, &mut header).map_err(|source| TrainError::io(path, source))?;
        let (entries, metadata) = read_header(path, &header)?;
        let data_start = header_bytes + 8;
        check_offsets(path, &entries, n_bytes - data_start)?;
        Ok(Self { path: path.to_path_buf(), source, data_start, entries, metadata })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The free texts of the header, such as `format`.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Reads a tensor and converts it to f32.
    ///
    /// # Errors
    /// [`TrainError::Tensor`] if it is missing, of an element type other than F64, F32, F16 and BF16, or has a value
    /// that is not finite; [`TrainError::Io`] if it cannot be read.
    pub fn read(&self, name: &str) -> Result<HostTensor, TrainError> {
        let fault = |fault| TrainError::Tensor { path: self.path.clone(), tensor: name.to_owned(), fault };
        let entry = self.entries.get(name).ok_or_else(|| fault(TensorFault::Missing))?;
        let size = convert::element_bytes(&entry.dtype)
            .ok_or_else(|| fault(TensorFault::ElementType(entry.dtype.clone())))?;
        let (start, end) = entry.data_offsets;
        let n_bytes = usize::try_from(end - start).unwrap_or(usize::MAX);
        if entry.shape.iter().try_fold(size, |bytes, side| bytes.checked_mul(*side)) != Some(n_bytes) {
            return Err(TrainError::file(
                &self.path,
                format!("the size of tensor {name} is not that of its shape"),
            ));
        }
        let mut bytes = vec![0; n_bytes];
        let position = self.data_start + start;
        self.source.read_at(position, &mut bytes).map_err(|source| TrainError::io(&self.path, source))?;
        let values = convert::to_f32(&entry.dtype, &bytes);
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(fault(TensorFault::NotFinite { index })),
            None => Ok(HostTensor { shape: entry.shape.clone(), values }),
        }
    }
}

/// The entries of all tensors, and the free texts.
type Header = (BTreeMap<String, Entry>, BTreeMap<String, String>);

fn read_header(path: &Path, header: &[u8]) -> Result<Header, TrainError> {
    let bad = |error: serde_json::Error| TrainError::file(path, format!("invalid header: {error}"));
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).map_err(bad)?;
    let mut entries = BTreeMap::new();
    let mut metadata = BTreeMap::new();
    for (name, value) in header {
        if name == "__metadata__" {
            metadata = serde_json::from_value(value).map_err(bad)?;
        } else {
            entries.insert(name, serde_json::from_value(value).map_err(bad)?);
        }
    }
    Ok((entries, metadata))
}

/// Tensors lie one behind the other, without gaps, up to the end of the file.
fn check_offsets(path: &Path, entries: &BTreeMap<String, Entry>, n_bytes: u64) -> Result<(), TrainError> {
    let mut ranges: Vec<(u64, u64)> = entries.values().map(|entry| entry.data_offsets).collect();
    ranges.sort_unstable();
    let mut end = 0;
    for (start, next) in ranges {
        if start != end || next < start {
            return Err(TrainError::file(path, "tensors overlap or leave a gap"));
        }
        end = next;
    }
    if end == n_bytes {
        return Ok(());
    }
    let fault = if end > n_bytes { "cut off" } else { "bytes follow the last tensor" };
    Err(TrainError::file(path, format!("{fault}: the header describes {end} bytes, {n_bytes} follow it")))
}

/// The weights of a model directory: `model.safetensors`, or the files that its index names.
#[derive(Debug)]
pub struct WeightFiles {
    files: Vec<TensorFile>,
    directory: PathBuf,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl WeightFiles {
    /// Opens the weights of a model directory.
    ///
    /// # Errors
    /// As [`TensorFile::open`]; an index that names a file outside of the directory is a [`TrainError::File`].
    pub fn open(directory: &Path) -> Result<Self, TrainError> {
        let index_path = directory.join(INDEX_FILE);
        let names = if index_path.exists() {
            let text = model_file::read_text(&index_path)?;
            let index: Index = python_json::read(&text)
                .map_err(|error| TrainError::file(&index_path, format!("invalid index: {error}")))?;
            let mut names: Vec<String> = index.weight_map.into_values().collect();
            names.sort_unstable();
            names.dedup();
            if let Some(name) = names.iter().find(|name| Path::new(name).components().count() != 1) {
                return Err(TrainError::file(&index_path, format!("{name} is not the name of a file")));
            }
            names
        } else {
            vec![SINGLE_FILE.to_owned()]
        };
        let files = names.iter().map(|name| TensorFile::open(&directory.join(name)));
        Ok(Self { files: files.collect::<Result<_, _>>()?, directory: directory.to_path_buf() })
    }

    /// Opens one file as the weights of a model.
    ///
    /// # Errors
    /// As [`TensorFile::open`].
    pub fn open_file(path: &Path) -> Result<Self, TrainError> {
        Ok(Self { files: vec![TensorFile::open(path)?], directory: path.to_path_buf() })
    }

    /// The names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().flat_map(TensorFile::names)
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Element types as the headers name them, such as `BF16`, with the number of values that have them.
    pub fn element_types(&self) -> BTreeMap<String, u64> {
        let mut types = BTreeMap::new();
        for entry in self.files.iter().flat_map(|file| file.entries.values()) {
            let n_values = entry.shape.iter().map(|side| *side as u64).fold(1, u64::saturating_mul);
            *types.entry(entry.dtype.clone()).or_insert(0) += n_values;
        }
        types
    }

    /// The shape of a tensor; empty for one that does not exist.
    pub fn shape_of(&self, name: &str) -> &[usize] {
        let entry = self.file_of(name).and_then(|file| file.entries.get(name));
        entry.map_or(&[], |entry| &entry.shape)
    }

    /// The path of the file that has a tensor, or of the directory.
    pub fn path_of(&self, name: &str) -> &Path {
        self.file_of(name).map_or(&self.directory, |file| &file.path)
    }

    /// Reads a tensor of this shape.
    ///
    /// # Errors
    /// As [`TensorFile::read`], and [`TensorFault::Shape`] for another shape.
    pub fn read(&self, name: &str, shape: &[usize]) -> Result<HostTensor, TrainError> {
        let fault = |fault| TrainError::Tensor {
            path: self.path_of(name).to_path_buf(),
            tensor: name.to_owned(),
            fault,
        };
        let file = self.file_of(name).ok_or_else(|| fault(TensorFault::Missing))?;
        if let Some(entry) = file.entries.get(name)
            && entry.shape != shape
        {
            return Err(fault(TensorFault::Shape { expected: shape.to_vec(), found: entry.shape.clone() }));
        }
        file.read(name)
    }

    fn file_of(&self, name: &str) -> Option<&TensorFile> {
        self.files.iter().find(|file| file.entries.contains_key(name))
    }
}

/// A tensor to be written: name, shape, and f32 values row-major.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// The name.
    pub name: &'a str,
    /// Size of each dimension.
    pub shape: &'a [usize],
    /// The values; as many as the product of the shape.
    pub values: &'a [f32],
}

/// The bytes of a safetensors file with these tensors as F32, sorted by name, and the metadata `{"format": "pt"}`.
///
/// The bytes are those of `safetensors.torch.save_file(tensors, metadata={"format": "pt"})`.
pub fn encode(tensors: &[TensorView<'_>]) -> Vec<u8> {
    let mut sorted: Vec<TensorView<'_>> = tensors.to_vec();
    sorted.sort_unstable_by_key(|tensor| tensor.name);
    let mut bytes = header(sorted.iter().map(|tensor| (tensor.name, tensor.shape)), "F32", size_of::<f32>());
    bytes.reserve_exact(sorted.iter().map(|tensor| size_of_val(tensor.values)).sum());
    for tensor in sorted {
        bytes.extend(tensor.values.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}

/// The header of a safetensors file with tensors in this order, with its length.
pub(crate) fn header<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a [usize])>,
    dtype: &str,
    element_bytes: usize,
) -> Vec<u8> {
    let mut header = String::from("{\"__metadata__\":{\"format\":\"pt\"}");
    let mut end = 0;
    for (name, shape) in tensors {
        let start = end;
        end += shape.iter().product::<usize>() * element_bytes;
        let (name, shape) = (serde_json::Value::from(name), serde_json::Value::from(shape));
        header.push_str(&format!(
            ",{name}:{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{start},{end}]}}"
        ));
    }
    header.push('}');
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()
}
