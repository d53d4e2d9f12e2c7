//! The stand-ins for libcuda and libnccl: built from `standin/` and the kernels' own sources, found by a child process alone.
//!
//! Nothing that ran with them ran on a GPU. What they imitate is at the head of `standin/standin.hpp`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lockstep_kernels::cpu::{CompileError, Compiler, Library, Sanitizers, Source};

use crate::places::workspace;

/// The folder of the sources, in the workspace.
const SOURCES: &str = "tests/standin";
const CUDA_FILES: [&str; 6] =
    ["driver.hpp", "memory.cpp", "standin.hpp", "standin_cuda.cpp", "standin_streams.cpp", "stream.cpp"];

/// A folder with the libraries under the names that are looked for.
#[derive(Clone, Debug)]
pub struct Standin {
    folder: PathBuf,
}

impl Standin {
    /// Stand-ins for the driver and for NCCL. Compiled into `cache`, once.
    ///
    /// # Panics
    /// If the compiler is missing.
    #[must_use]
    pub fn whole(cache: &Path) -> Self {
        Self::of(cache, "standin-whole", &[("libcuda.so", cuda(cache)), ("libnccl.so", nccl(cache))])
    }

    /// The stand-in for the driver alone, as on a machine without NCCL.
    ///
    /// # Panics
    /// If the compiler is missing.
    #[must_use]
    pub fn without_nccl(cache: &Path) -> Self {
        Self::of(cache, "standin-without-nccl", &[("libcuda.so", cuda(cache))])
    }

    /// Both, NCCL under the one name that its runtime packages install.
    ///
    /// # Panics
    /// If the compiler is missing.
    #[must_use]
    pub fn with_nccl_misnamed(cache: &Path) -> Self {
        Self::of(cache, "standin-misnamed", &[("libcuda.so", cuda(cache)), ("libnccl.so.2", nccl(cache))])
    }

    /// Links the libraries to their names, in a folder whose name says what they are.
    fn of(cache: &Path, name: &str, libraries: &[(&str, PathBuf)]) -> Self {
        let folder = cache.join(name);
        fs::create_dir_all(&folder).unwrap();
        for (name, library) in libraries {
            link(library, &folder.join(name)).unwrap();
        }
        // cudarc tries the first name first, which a machine with CUDA's developer files has; others know the second.
        link(&libraries[0].1, &folder.join("libcuda.so.1")).unwrap();
        Self { folder }
    }

    /// Lets a command's process find the stand-ins, with this many devices.
    pub fn lend<'a>(&self, command: &'a mut Command, devices: u32) -> &'a mut Command {
        command.env("LD_LIBRARY_PATH", &self.folder).env("STANDIN_DEVICES", devices.to_string())
    }
}

fn cuda(cache: &Path) -> PathBuf {
    compiled(cache, "standin_cuda", &CUDA_FILES, &Source::all().unwrap()).unwrap()
}

fn nccl(cache: &Path) -> PathBuf {
    compiled(cache, "standin_nccl", &["standin_nccl.cpp"], &[]).unwrap()
}

fn compiled(cache: &Path, name: &str, files: &[&str], kernels: &[Source]) -> Result<PathBuf, CompileError> {
    let folder = workspace().join(SOURCES);
    Compiler::new(cache, Sanitizers::Off).library(Library { name, folder: &folder, files, kernels })
}

/// Makes `name` another name of the file `library`; tests in other processes may do the same at the same time.
fn link(library: &Path, name: &Path) -> io::Result<()> {
    let inode = |path: &Path| fs::symlink_metadata(path).map(|file| file.ino());
    if inode(name).is_ok_and(|own| inode(library).is_ok_and(|wanted| own == wanted)) {
        return Ok(());
    }
    let fresh = name.with_extension(std::process::id().to_string());
    fs::hard_link(library, &fresh)?;
    fs::rename(&fresh, name)
}
