//! Kernels as processes on the CPU: compiled by g++ with `shim/`, fed launches through a pipe.
//!
//! The protocol of the pipe is at the head of `shim/harness.cpp`.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use lockstep_kernels::{Kernel, Launch};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const FLAGS: [&str; 2] = ["-std=c++17", "-O1"];
const SHIM_SOURCES: [&str; 3] = ["entry.cpp", "fiber_shim.cpp", "harness.cpp"];

/// What a launch passes for one parameter.
pub(crate) enum Argument {
    /// A buffer's content before the launch.
    Buffer(Vec<u8>),
    /// A 32-bit value.
    Scalar([u8; 4]),
}

/// A kernel compiled for the CPU.
pub(crate) struct Program {
    binary: PathBuf,
}

/// A running program, which answers one launch after another.
pub(crate) struct Session {
    child: Child,
}

/// The committed source of a kernel.
pub(crate) fn source(kernel: Kernel) -> String {
    let path = Path::new(CRATE).join("cuda").join(format!("{kernel}.cu"));
    fs::read_to_string(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

impl Program {
    /// Compiles a source that defines `entry`, with `$CXX` or else g++.
    pub(crate) fn compile(entry: &str, source: &str) -> Self {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
        Self::compile_with(&compiler, entry, source).unwrap_or_else(|message| panic!("{message}"))
    }

    /// Compiles with a named compiler; the error says what is wrong with the compiler or the source.
    pub(crate) fn compile_with(compiler: &str, entry: &str, source: &str) -> Result<Self, String> {
        let binary = cached(&(compiler, entry, source))?;
        if !binary.exists() {
            // Tests compile at the same time: each into a folder of its own, moved into place when complete.
            let scratch = fresh_name(&binary);
            let built = build(compiler, entry, source, &scratch).and_then(|kernel| {
                fs::rename(kernel, &binary).map_err(|cause| format!("{}: {cause}", binary.display()))
            });
            fs::remove_dir_all(&scratch).map_err(|cause| format!("{}: {cause}", scratch.display()))?;
            built?;
        }
        Ok(Self { binary })
    }

    /// The types of the kernel's parameters, from its C++ signature.
    pub(crate) fn signature(&self) -> Vec<String> {
        let output = Command::new(&self.binary).arg("signature").output().expect("the program runs");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// Starts a process.
    pub(crate) fn start(&self) -> Session {
        let mut command = Command::new(&self.binary);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        Session { child }
    }
}

/// Compiles a kernel with the shim in the new folder `scratch`; returns the binary's path there.
fn build(compiler: &str, entry: &str, source: &str, scratch: &Path) -> Result<PathBuf, String> {
    let (copy, binary) = (scratch.join("kernel.cu"), scratch.join("kernel"));
    let written = fs::create_dir_all(scratch).and_then(|()| fs::write(&copy, source));
    written.map_err(|cause| format!("{}: {cause}", copy.display()))?;
    let output = compilation(compiler, entry, &copy).arg("-o").arg(&binary).output();
    let output = output.map_err(|cause| {
        format!(
            "{compiler}: {cause}; install g++ (Debian: apt-get install g++) or name a C++17 compiler in CXX"
        )
    })?;
    if output.status.success() {
        return Ok(binary);
    }
    Err(format!("{compiler} refuses {entry}:\n{}", String::from_utf8_lossy(&output.stderr)))
}

fn compilation(compiler: &str, entry: &str, copy: &Path) -> Command {
    let [dialect, shim] = ["cuda", "shim"].map(|folder| Path::new(CRATE).join(folder));
    let mut command = Command::new(compiler);
    command.args(FLAGS).arg(format!("-DKERNEL_ENTRY={entry}"));
    command.arg(format!("-DKERNEL_SOURCE=\"{}\"", copy.display()));
    command.arg("-I").arg(dialect).arg("-I").arg(&shim);
    command.args(SHIM_SOURCES.map(|name| shim.join(name)));
    command
}

/// Where the binary of `key`, the shim and the dialect lies once compiled.
fn cached(key: &impl Hash) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let headers = ["shim/fiber_shim.hpp", "shim/entry.hpp", "cuda/dialect.cuh"].map(str::to_owned);
    for name in SHIM_SOURCES.map(|name| format!("shim/{name}")).into_iter().chain(headers) {
        let text =
            fs::read_to_string(Path::new(CRATE).join(&name)).map_err(|cause| format!("{name}: {cause}"))?;
        text.hash(&mut hasher);
    }
    Ok(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernel-{:016x}", hasher.finish())))
}

/// A path beside `binary` that no other test uses.
fn fresh_name(binary: &Path) -> PathBuf {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    binary.with_extension(format!("{}-{number}", std::process::id()))
}

impl Session {
    /// Runs the kernel once; thread order 0 is ascending, any other is a shuffle.
    ///
    /// Returns the buffers after the launch, or the shim's report of threads that got stuck.
    pub(crate) fn launch(
        &mut self,
        launch: Launch,
        order: u32,
        arguments: &[Argument],
    ) -> Result<Vec<Vec<u8>>, String> {
        let request = encode(launch, order, arguments);
        self.exchange(&request, arguments).unwrap_or_else(|cause| {
            panic!("the kernel's process ended: {cause}, {:?}", self.child.wait());
        })
    }

    fn exchange(
        &mut self,
        request: &[u8],
        arguments: &[Argument],
    ) -> io::Result<Result<Vec<Vec<u8>>, String>> {
        self.child.stdin.as_mut().expect("a piped input").write_all(request)?;
        let output = self.child.stdout.as_mut().expect("a piped output");
        if read_word(output)? == 0 {
            let lengths = arguments.iter().filter_map(Argument::buffer_length);
            return lengths.map(|length| read_bytes(output, length)).collect::<io::Result<_>>().map(Ok);
        }
        let length = read_word(output)? as usize;
        Ok(Err(String::from_utf8_lossy(&read_bytes(output, length)?).into_owned()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

impl Argument {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Buffer(bytes) => bytes,
            Self::Scalar(bytes) => bytes,
        }
    }

    fn buffer_length(&self) -> Option<usize> {
        match self {
            Self::Buffer(bytes) => Some(bytes.len()),
            Self::Scalar(_) => None,
        }
    }
}

fn encode(launch: Launch, order: u32, arguments: &[Argument]) -> Vec<u8> {
    let [x, y] = launch.threads;
    let mut request = Vec::new();
    for word in [launch.blocks, x, y, launch.shared_bytes, order] {
        request.extend(word.to_ne_bytes());
    }
    for argument in arguments {
        let size = u32::try_from(argument.bytes().len()).expect("test buffers are small");
        request.extend(size.to_ne_bytes());
        request.extend(argument.bytes());
    }
    request
}

fn read_word(from: &mut impl Read) -> io::Result<u32> {
    let mut word = [0; 4];
    from.read_exact(&mut word)?;
    Ok(u32::from_ne_bytes(word))
}

fn read_bytes(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
