//! Compilation of kernels for the CPU: sources in, a program or a shared library out, kept for the next time.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use thiserror::Error;

use crate::kernel::{Entry, Kernel};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const FLAGS: [&str; 7] = [
    "-std=c++17",
    "-O1",
    "-Wall",
    "-Wno-unknown-pragmas",
    "-Wno-unused-function",
    "-fPIC",
    "-fvisibility=hidden",
];
/// A library leaves a kernel that faults by a long jump, which a fortified one is not trusted with.
const LIBRARY_FLAGS: [&str; 3] = ["-shared", "-pthread", "-U_FORTIFY_SOURCE"];
const SANITIZERS: [&str; 3] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
const SCHEDULER: &str = "shim/fiber_shim.cpp";
const HARNESS: &str = "shim/harness.cpp";
const HEADERS: [&str; 9] = [
    "cuda/cache.cuh",
    "cuda/dialect.cuh",
    "cuda/numbers.cuh",
    "cuda/reduce.cuh",
    "shim/context.hpp",
    "shim/device_math.hpp",
    "shim/entry.hpp",
    "shim/fiber_shim.hpp",
    "shim/shared.hpp",
];

/// Whether a program stops at accesses beyond a buffer and at undefined behaviour; a few times slower if so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizers {
    /// Compiled without.
    Off,
    /// With AddressSanitizer and UndefinedBehaviorSanitizer.
    On,
}

/// Why kernels were not compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// The compiler does not start.
    #[error("{compiler}: {cause}; install g++ (Debian: apt-get install g++) or name a C++17 compiler in CXX")]
    Compiler {
        /// Its name.
        compiler: String,
        /// The operating system's complaint.
        cause: io::Error,
    },
    /// The compiler refuses a source.
    #[error("{compiler} refuses {what}:\n{log}")]
    Refused {
        /// Its name.
        compiler: String,
        /// What it was given.
        what: String,
        /// Its complaints.
        log: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's complaint.
        cause: io::Error,
    },
}

/// One source of kernels.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name in messages.
    pub name: String,
    /// CUDA C++ in the dialect of cuda/dialect.cuh.
    pub text: String,
    /// The entry points that it defines.
    pub entries: Vec<String>,
}

impl Source {
    /// The committed source of a kernel.
    ///
    /// # Errors
    /// [`CompileError::File`].
    pub fn of(kernel: Kernel) -> Result<Self, CompileError> {
        let name = format!("{}.cu", kernel.source());
        let defined = Entry::all().filter(|entry| entry.kernel().source() == kernel.source());
        Ok(Self {
            text: read(&format!("cuda/{name}"))?,
            entries: defined.map(|entry| entry.to_string()).collect(),
            name,
        })
    }

    /// All committed sources.
    ///
    /// # Errors
    /// [`CompileError::File`].
    pub fn all() -> Result<Vec<Self>, CompileError> {
        let mut kernels = Kernel::ALL.to_vec();
        kernels.sort_by_key(|kernel| kernel.source());
        kernels.dedup_by_key(|kernel| kernel.source());
        kernels.into_iter().map(Self::of).collect()
    }
}

/// A compiler and the folder where it keeps what it made.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// Its command.
    pub command: String,
    /// The folder; it may be deleted at any time that nothing compiles.
    pub folder: PathBuf,
    /// Whether programs watch their memory.
    pub sanitizers: Sanitizers,
}

/// Kernels compiled for the CPU.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) binary: PathBuf,
}

/// A shared library of C++ files and, if it has any kernels, of their entries and the fibers that run them.
#[derive(Clone, Copy, Debug)]
pub struct Library<'a> {
    /// Its name in messages and in the cache.
    pub name: &'a str,
    /// Where its files are.
    pub folder: &'a Path,
    /// Its files; those that end in `.cpp` are compiled, the others are included by them.
    pub files: &'a [&'a str],
    /// Its kernels; `entry.hpp` declares what the files see of them.
    pub kernels: &'a [Source],
}

/// What a compilation starts from: the text of a translation unit, under a name.
struct Unit {
    name: String,
    text: String,
}

impl Unit {
    fn of(folder: &Path, name: &str) -> Result<Self, CompileError> {
        Ok(Self { name: name.to_owned(), text: read_file(&folder.join(name))? })
    }

    fn entries(sources: &[Source]) -> Self {
        Self { name: "entries.cpp".to_owned(), text: program_text(sources) }
    }
}

impl Compiler {
    /// `$CXX`, or else g++.
    #[must_use]
    pub fn new(folder: &Path, sanitizers: Sanitizers) -> Self {
        let command = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
        Self { command, folder: folder.to_owned(), sanitizers }
    }

    /// Compiles sources into one program.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn compile(&self, sources: &[Source]) -> Result<Program, CompileError> {
        let files = [SCHEDULER, HARNESS].map(|name| Unit::of(Path::new(CRATE), name));
        let mut units = vec![Unit::entries(sources)];
        units.extend(files.into_iter().collect::<Result<Vec<_>, _>>()?);
        let objects = self.objects(&units, &headers()?, None)?;
        Ok(Program { binary: self.linked("kernels", &objects, &[])? })
    }

    /// Compiles a shared library; the path of its file, whose name is of the cache's choosing.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn library(&self, library: Library<'_>) -> Result<PathBuf, CompileError> {
        let mut headers = headers()?;
        let mut objects = Vec::new();
        if !library.kernels.is_empty() {
            let units = [Unit::entries(library.kernels), Unit::of(Path::new(CRATE), SCHEDULER)?];
            objects = self.objects(&units, &headers, None)?;
        }
        let mut units = Vec::new();
        for name in library.files {
            let unit = Unit::of(library.folder, name)?;
            if name.ends_with(".cpp") { units.push(unit) } else { headers.push(unit.text) }
        }
        objects.extend(self.objects(&units, &headers, Some(library.folder))?);
        self.linked(library.name, &objects, &LIBRARY_FLAGS)
    }

    /// Compiles translation units, all at the same time.
    fn objects(
        &self,
        units: &[Unit],
        headers: &[String],
        include: Option<&Path>,
    ) -> Result<Vec<PathBuf>, CompileError> {
        thread::scope(|scope| {
            let object = |unit| scope.spawn(move || self.object(unit, headers, include));
            let threads: Vec<_> = units.iter().map(object).collect();
            let ended = |_| self.refused("a source", b"its thread ended".to_vec());
            threads.into_iter().map(|thread| thread.join().map_err(ended)?).collect()
        })
    }

    /// Compiles one translation unit.
    fn object(
        &self,
        unit: &Unit,
        headers: &[String],
        include: Option<&Path>,
    ) -> Result<PathBuf, CompileError> {
        let stem = Path::new(&unit.name).file_stem().unwrap_or_default().to_string_lossy();
        self.cached(&stem, &(&unit.text, headers), |output| {
            let copy = PathBuf::from(format!("{}.cpp", output.display()));
            fs::write(&copy, &unit.text).map_err(in_file(&copy))?;
            let mut command = Command::new(&self.command);
            command.args(self.flags()).arg("-c").arg(&copy).arg("-o").arg(output);
            let own = ["cuda", "shim"].map(|folder| Path::new(CRATE).join(folder));
            for folder in own.iter().map(PathBuf::as_path).chain(include) {
                command.arg("-I").arg(folder);
            }
            let result = self.run(command, &unit.name);
            fs::remove_file(&copy).map_err(in_file(&copy))?;
            result
        })
    }

    /// Links objects.
    fn linked(&self, name: &str, objects: &[PathBuf], flags: &[&str]) -> Result<PathBuf, CompileError> {
        self.cached(name, &(objects, flags), |output| {
            let mut command = Command::new(&self.command);
            command.args(self.flags()).args(objects).args(flags).arg("-o").arg(output);
            self.run(command, "the objects")
        })
    }

    /// The file made of `key`, which `make` writes if it is not there.
    fn cached(
        &self,
        stem: &str,
        key: &impl Hash,
        make: impl FnOnce(&Path) -> Result<(), CompileError>,
    ) -> Result<PathBuf, CompileError> {
        let mut hasher = DefaultHasher::new();
        (key, &self.command, self.flags()).hash(&mut hasher);
        let path = self.folder.join(format!("{stem}-{:016x}", hasher.finish()));
        if !path.exists() {
            fs::create_dir_all(&self.folder).map_err(in_file(&self.folder))?;
            // Others may make the same file at the same time: each under a name of its own, moved when complete.
            let fresh = fresh_name(&path);
            make(&fresh)?;
            fs::rename(&fresh, &path).map_err(in_file(&path))?;
        }
        Ok(path)
    }

    fn flags(&self) -> Vec<&'static str> {
        let sanitizers: &[_] = match self.sanitizers {
            Sanitizers::Off => &[],
            Sanitizers::On => &SANITIZERS,
        };
        [&FLAGS, sanitizers].concat()
    }

    fn run(&self, mut command: Command, what: &str) -> Result<(), CompileError> {
        let failed = |cause| CompileError::Compiler { compiler: self.command.clone(), cause };
        let Output { status, stderr, .. } = command.output().map_err(failed)?;
        if status.success() { Ok(()) } else { Err(self.refused(what, stderr)) }
    }

    fn refused(&self, what: &str, log: Vec<u8>) -> CompileError {
        let log = String::from_utf8_lossy(&log).into_owned();
        CompileError::Refused { compiler: self.command.clone(), what: what.to_owned(), log }
    }
}

/// One translation unit of all sources, and the list of their entries that harness.cpp serves.
fn program_text(sources: &[Source]) -> String {
    let mut text = String::new();
    for source in sources {
        text += &format!("#line 1 \"{}\"\n{}\n", source.name, source.text);
    }
    let entries: String =
        sources.iter().flat_map(|source| &source.entries).map(|entry| format!("ENTRY({entry}), ")).collect();
    text += "#line 1 \"entries.cpp\"\n#include \"numbers.cuh\"\n#include \"entry.hpp\"\n";
    text += "const std::vector<Entry>& entries() {\n    static const std::vector<Entry> all = {";
    text + &entries + "};\n    return all;\n}\n"
}

/// The texts of what the kernels and the shim include.
fn headers() -> Result<Vec<String>, CompileError> {
    HEADERS.into_iter().map(read).collect()
}

fn read(name: &str) -> Result<String, CompileError> {
    read_file(&Path::new(CRATE).join(name))
}

fn read_file(path: &Path) -> Result<String, CompileError> {
    fs::read_to_string(path).map_err(in_file(path))
}

fn in_file(path: &Path) -> impl Fn(io::Error) -> CompileError {
    move |cause| CompileError::File { path: path.to_owned(), cause }
}

/// A path beside `path` that nothing else uses.
fn fresh_name(path: &Path) -> PathBuf {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{number}", std::process::id()))
}
