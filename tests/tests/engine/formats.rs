//! Weight formats: the same model in other element types, cut into files, and with its own output projection.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{goldens, model_directory};
use crate::device::backend;
use half::{bf16, f16};
use lockstep_runtime::engine::{Alone, Backend, CacheType, Choice, CpuBackend, Llama, Row};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A tensor: shape and elements.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn tensors() -> Tensors {
    let bytes = fs::read(model_directory().join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let elements = |view: &TensorView<'_>| {
        let (elements, _) = view.data().as_chunks();
        elements.iter().map(|element| bf16::from_le_bytes(*element).to_f32()).collect()
    };
    file.iter().map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), elements(&view)))).collect()
}

fn write(path: &Path, tensors: &Tensors, dtype: Dtype, encode: impl Fn(f32) -> Vec<u8>) {
    let bytes: BTreeMap<_, _> = tensors
        .iter()
        .map(|(name, (shape, elements))| {
            (name, (shape, elements.iter().flat_map(|element| encode(*element)).collect::<Vec<u8>>()))
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, (shape, bytes))| (name, TensorView::new(dtype, shape.to_vec(), bytes).unwrap()));
    fs::write(path, serialize(views, None).unwrap()).unwrap();
}

fn directory(changes: &[(&str, Value)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    let text = fs::read(model_directory().join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    for (field, value) in changes {
        config[*field] = value.clone();
    }
    fs::write(directory.path().join("config.json"), config.to_string()).unwrap();
    directory
}

fn logits(directory: &Path) -> Vec<f32> {
    logits_on(CpuBackend::default(), directory)
}

fn logits_on(backend: impl Backend, directory: &Path) -> Vec<f32> {
    let mut llama = Llama::load_on(backend, directory, 0, 1).unwrap();
    let mut cache = llama.cache(16, 1).unwrap();
    let tokens = goldens().swap_remove(0).prompt_ids;
    let row = Row { tokens: &tokens, start: 0, pages: &[0] };
    llama.logits(&mut cache, &[row], &mut Alone).unwrap()
}

fn f32_bytes(element: f32) -> Vec<u8> {
    element.to_le_bytes().to_vec()
}

#[test]
fn formats_f32_equals_bf16_in_bits() {
    let wide = directory(&[]);
    write(&wide.path().join("model.safetensors"), &tensors(), Dtype::F32, f32_bytes);
    assert!(logits(wide.path()) == logits(&model_directory()));
}

#[test]
fn formats_f16_gives_the_same_token() {
    let half = directory(&[]);
    let encode = |element| f16::from_f32(element).to_le_bytes().to_vec();
    write(&half.path().join("model.safetensors"), &tensors(), Dtype::F16, encode);
    let (found, expected) = (logits(half.path()), logits(&model_directory()));
    let furthest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(furthest < 1e-3, "logits are off by {furthest}");
    assert_eq!(Choice::of(&found).unwrap().token, Choice::of(&expected).unwrap().token);
}

/// The kernels of each type of weights, beside the CPU, which computes with `f32` always.
#[test]
fn formats_f32_and_f16_weights_are_computed_with_on_a_device() {
    let f16_bytes = |element| f16::from_f32(element).to_le_bytes().to_vec();
    for (dtype, encode) in [(Dtype::F32, f32_bytes as fn(f32) -> Vec<u8>), (Dtype::F16, f16_bytes)] {
        let directory = directory(&[]);
        write(&directory.path().join("model.safetensors"), &tensors(), dtype, encode);
        let found = logits_on(backend(CacheType::F32), directory.path());
        let furthest =
            found.iter().zip(logits(directory.path())).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(furthest < 2e-4, "{dtype}: a logit differs by {furthest}");
    }
}

#[test]
fn formats_sharded_index_and_own_output_projection() {
    let directory = directory(&[("tie_word_embeddings", json!(false))]);
    let mut tensors = tensors();
    let mut projection = tensors["model.embed_tokens.weight"].clone();
    projection.1.iter_mut().for_each(|element| *element *= 2.0);
    tensors.insert("lm_head.weight".to_owned(), projection);
    let second = tensors.split_off("model.layers.2");
    let parts = [("part-1.safetensors", tensors), ("part-2.safetensors", second)];
    let mut weight_map = BTreeMap::new();
    for (file, tensors) in &parts {
        write(&directory.path().join(file), tensors, Dtype::F32, f32_bytes);
        weight_map.extend(tensors.keys().map(|name| (name.clone(), *file)));
    }
    let index = json!({"metadata": {"total_size": 1}, "weight_map": weight_map}).to_string();
    fs::write(directory.path().join("model.safetensors.index.json"), index).unwrap();
    let doubled: Vec<f32> = logits(&model_directory()).iter().map(|logit| logit * 2.0).collect();
    assert!(logits(directory.path()) == doubled);
    fs::remove_file(directory.path().join("part-2.safetensors")).unwrap();
    let error = Llama::load(directory.path(), 0, 1).unwrap_err().to_string();
    assert!(error.contains("part-2.safetensors"), "{error}");
}

#[test]
fn formats_other_element_types_are_refused_by_name() {
    let directory = directory(&[]);
    let encode = |element| f64::from(element).to_le_bytes().to_vec();
    write(&directory.path().join("model.safetensors"), &tensors(), Dtype::F64, encode);
    let error = Llama::load(directory.path(), 0, 1).unwrap_err().to_string();
    assert!(error.contains("embed_tokens") && error.contains("F64"), "{error}");
}
