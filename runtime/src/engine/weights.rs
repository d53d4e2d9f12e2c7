//! Weights of a model directory: safetensors files, one or many, read tensor by tensor in the type that they have.
//!
//! Read after the configuration. Only the bytes of this rank's rows are read; for a column share the tensor is read
//! whole and cut. No file is mapped or held in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::Deserialize;

/// Why a directory's weights cannot be loaded; all are the configuration's fault.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// A file's header or index is not what it should be.
    #[error("{}: {reason}; download or export the file again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor is in no file.
    #[error("tensor {name} is in none of the weight files; the directory is not a complete Llama")]
    MissingTensor {
        /// Name of the tensor.
        name: String,
    },
    /// There are no weights.
    #[error("{} has neither model.safetensors nor model.safetensors.index.json", path.display())]
    NoWeights {
        /// The model directory.
        path: PathBuf,
    },
    /// A tensor's shape contradicts config.json.
    #[error("tensor {name} has shape {found:?}; config.json asks for {expected:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape by config.json.
        expected: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
    /// A tensor's elements are of a type that the engine does not read.
    #[error("tensor {name} has elements of type {dtype}; supported: F32, BF16, F16")]
    ElementType {
        /// Name of the tensor.
        name: String,
        /// Its element type.
        dtype: Dtype,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's complaint.
        source: io::Error,
    },
}

/// The weight files of one directory, opened, with their headers read.
#[derive(Debug)]
pub(super) struct Checkpoint {
    files: Vec<TensorFile>,
}

impl Checkpoint {
    /// Opens the single file of `directory`, or all that its index names.
    pub(super) fn open(directory: &Path) -> Result<Self, WeightsError> {
        let single = directory.join("model.safetensors");
        let index = directory.join("model.safetensors.index.json");
        let paths = if single.is_file() {
            vec![single]
        } else if index.is_file() {
            indexed_files(&index)?.iter().map(|name| directory.join(name)).collect()
        } else {
            return Err(WeightsError::NoWeights { path: directory.to_owned() });
        };
        let files = paths.into_iter().map(TensorFile::open).collect::<Result<_, _>>()?;
        Ok(Self { files })
    }

    /// The whole tensor, row-major.
    pub(super) fn whole(&self, name: &str, shape: &[usize]) -> Result<Tensor, WeightsError> {
        self.read(name, shape, 0..shape.first().copied().unwrap_or(0))
    }

    /// Some rows of a matrix.
    pub(super) fn rows(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Tensor, WeightsError> {
        self.read(name, &shape, rows)
    }

    /// Some columns of a matrix.
    pub(super) fn columns(
        &self,
        name: &str,
        shape: [usize; 2],
        Range { start, end }: Range<usize>,
    ) -> Result<Tensor, WeightsError> {
        let Tensor { precision, bytes } = self.whole(name, &shape)?;
        let columns = start * precision.bytes()..end * precision.bytes();
        let rows = bytes.chunks_exact(shape[1] * precision.bytes());
        Ok(Tensor { precision, bytes: rows.flat_map(|row| &row[columns.clone()]).copied().collect() })
    }

    fn read(&self, name: &str, shape: &[usize], rows: Range<usize>) -> Result<Tensor, WeightsError> {
        let (file, info) = self
            .files
            .iter()
            .find_map(|file| Some((file, file.metadata.info(name)?)))
            .ok_or_else(|| WeightsError::MissingTensor { name: name.to_owned() })?;
        if info.shape != shape {
            return Err(WeightsError::Shape {
                name: name.to_owned(),
                expected: shape.to_owned(),
                found: info.shape.clone(),
            });
        }
        let precision = Precision::of(info.dtype)
            .ok_or_else(|| WeightsError::ElementType { name: name.to_owned(), dtype: info.dtype })?;
        Ok(Tensor { precision, bytes: file.rows(info, rows)? })
    }
}

/// The type of floating-point elements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Precision {
    /// The upper half of an IEEE 754 single.
    Bf16,
    /// IEEE 754 half precision.
    F16,
    /// IEEE 754 single precision.
    F32,
}

impl Precision {
    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    fn of(dtype: Dtype) -> Option<Self> {
        let known = [(Dtype::BF16, Self::Bf16), (Dtype::F16, Self::F16), (Dtype::F32, Self::F32)];
        known.into_iter().find(|(known, _)| *known == dtype).map(|(_, precision)| precision)
    }
}

/// Elements on their way to a backend, row-major.
#[derive(Debug)]
pub struct Tensor {
    /// Their type.
    pub precision: Precision,
    /// Their bytes, little-endian.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// The elements as `f32`, exactly.
    #[must_use]
    pub fn into_f32(self) -> Vec<f32> {
        match self.precision {
            Precision::Bf16 => decode(&self.bytes, |element| bf16::from_le_bytes(element).to_f32()),
            Precision::F16 => decode(&self.bytes, |element| f16::from_le_bytes(element).to_f32()),
            Precision::F32 => decode(&self.bytes, f32::from_le_bytes),
        }
    }
}

impl From<Vec<f32>> for Tensor {
    fn from(elements: Vec<f32>) -> Self {
        let bytes = elements.into_iter().flat_map(f32::to_le_bytes).collect();
        Self { precision: Precision::F32, bytes }
    }
}

fn decode<const SIZE: usize>(bytes: &[u8], element: impl Fn([u8; SIZE]) -> f32) -> Vec<f32> {
    bytes.as_chunks().0.iter().copied().map(element).collect()
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn indexed_files(path: &Path) -> Result<BTreeSet<String>, WeightsError> {
    let text = std::fs::read(path).map_err(|source| unreadable(path, source))?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| malformed(path, error.to_string()))?;
    Ok(index.weight_map.into_values().collect())
}

/// One safetensors file: 8 bytes of header length, a JSON header, then the tensors' bytes.
#[derive(Debug)]
struct TensorFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    data_start: u64,
}

impl TensorFile {
    fn open(path: PathBuf) -> Result<Self, WeightsError> {
        let file = File::open(&path).map_err(|source| unreadable(&path, source))?;
        let length = file.metadata().map_err(|source| unreadable(&path, source))?.len();
        let (metadata, data_start) = read_header(&path, &file, length)?;
        let expected = u64::try_from(metadata.data_len()).ok().and_then(|data| data.checked_add(data_start));
        if expected != Some(length) {
            return Err(malformed(&path, format!("{length} bytes long, not as long as its header says")));
        }
        Ok(Self { path, file, metadata, data_start })
    }

    /// Bytes of `rows` of a tensor.
    fn rows(&self, info: &TensorInfo, rows: Range<usize>) -> Result<Vec<u8>, WeightsError> {
        let (start, end) = info.data_offsets;
        let count = info.shape.first().copied().unwrap_or(1).max(1);
        let row_bytes = (end - start) / count;
        let offset = self.data_start + (start + rows.start * row_bytes) as u64;
        read_at(&self.file, offset, rows.len() * row_bytes).map_err(|source| unreadable(&self.path, source))
    }
}

fn read_header(path: &Path, file: &File, length: u64) -> Result<(Metadata, u64), WeightsError> {
    let prefix = read_at(file, 0, 8).map_err(|source| unreadable(path, source))?;
    let header = prefix.try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
    let size = usize::try_from(header)
        .ok()
        .filter(|_| header <= length - 8)
        .ok_or_else(|| malformed(path, format!("the header claims {header} bytes")))?;
    let text = read_at(file, 8, size).map_err(|source| unreadable(path, source))?;
    let metadata = serde_json::from_slice(&text).map_err(|error| malformed(path, error.to_string()))?;
    Ok((metadata, 8 + header))
}

fn read_at(mut file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, source: io::Error) -> WeightsError {
    WeightsError::Unreadable { path: path.to_owned(), source }
}

fn malformed(path: &Path, reason: String) -> WeightsError {
    WeightsError::Malformed { path: path.to_owned(), reason }
}
