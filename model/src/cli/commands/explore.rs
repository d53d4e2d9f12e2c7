//! `explore`: a page on which a person steps through a run or a counterexample.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::explain::{Choices, Finding, Trace, replay};
use crate::runs::{Exit, Failure, Registry, Retraced};
use crate::screen::tell;

use super::Trouble;
use super::explain::{explored, read, run_called};
use crate::cli::browser::{Api, Opened, listen, serve, stand_alone};
use crate::cli::files::examine_text;
use crate::cli::options::Effort;
use crate::cli::outputs::write;

/// Seconds that the page may have a run explored, if no budget is given.
const MOST_SECONDS: u64 = 60;

/// What to open and where.
pub(crate) struct Explore {
    /// A trace file or the name of a run; the list of runs without.
    pub(crate) trace: Option<String>,
    /// Port of the page; 0 is any free one.
    pub(crate) port: u16,
    /// Where to write a page that stands alone, instead of serving one.
    pub(crate) output: Option<PathBuf>,
    /// How runs are explored for their counterexamples.
    pub(crate) effort: Effort,
}

/// Serves the page until the process ends, or writes it.
pub(crate) fn explore(registry: &Registry, explore: &Explore) -> Result<Exit, Trouble> {
    match &explore.output {
        Some(path) => write_page(registry, explore, path),
        None => serve_page(registry, explore),
    }
}

fn write_page(registry: &Registry, explore: &Explore, path: &Path) -> Result<Exit, Trouble> {
    let Some(name) = &explore.trace else {
        let text = "--output writes the page of one counterexample; name a trace file or a run";
        return Err(Trouble::Failure(Failure::new(Exit::Usage, text)));
    };
    examine_text(path)?;
    let trace = match file(name) {
        Some(file) => read(file)?,
        None => explored(run_called(name, registry)?, registry, &explore.effort)?,
    };
    write(path, &stand_alone(&trace).map_err(io::Error::from)?)?;
    Ok(Exit::Ok)
}

fn serve_page(registry: &Registry, explore: &Explore) -> Result<Exit, Trouble> {
    let opened = match explore.trace.as_deref() {
        None => Opened::default(),
        Some(name) => match file(name) {
            Some(file) => opened(read(file)?, registry),
            None => {
                let run = run_called(name, registry)?.name.to_owned();
                Opened { at: Some((run, Choices::default())), ..Opened::default() }
            }
        },
    };
    for warning in &opened.warnings {
        tell(format_args!("lockstep-check: warning: {warning}"));
    }
    let listener = listen(explore.port).map_err(|error| not_served(explore.port, &error))?;
    let address = listener.local_addr()?;
    let api = Api::new(registry, opened, bounded(explore.effort));
    let mut out = anstream::stdout();
    writeln!(out, "lockstep-check: explore at http://{address}/ (Ctrl-C ends it)")?;
    out.flush()?;
    serve(&listener, &|target| api.answer(target));
    Ok(Exit::Ok)
}

/// A page that was closed must not keep the machine busy.
fn bounded(mut effort: Effort) -> Effort {
    if effort.bounds.most_states.is_none() {
        effort.bounds.most_seconds.get_or_insert(MOST_SECONDS);
    }
    effort
}

fn file(name: &str) -> Option<&Path> {
    Some(Path::new(name)).filter(|path| path.is_file())
}

fn not_served(port: u16, error: &io::Error) -> Trouble {
    let text = format!("cannot listen on port {port} of 127.0.0.1: {error}; leave --port out for a free one");
    Trouble::Failure(Failure::new(Exit::Usage, text))
}

/// The page of a counterexample: on the model if this build repeats it, as it was recorded if not.
fn opened(trace: Trace, registry: &Registry) -> Opened {
    let run = registry.runs.iter().find(|run| run.name == trace.run);
    let (Some(run), Ok(again)) = (run, replay(&trace, registry)) else {
        let text = format!("this build has no run `{}`: the trace is shown as it was recorded", trace.run);
        return Opened { at: None, trace: Some(trace), warnings: vec![text] };
    };
    let mut warnings = again.warnings;
    let at = match &again.finding {
        Finding::Same => Some((run.name.to_owned(), choices(&run.model.retrace(&trace.script())))),
        Finding::Diverges { .. } | Finding::Elsewhere(_) => {
            warnings.push(format!("{}: the trace is shown as it was recorded", again.finding));
            None
        }
    };
    Opened { at, trace: Some(trace), warnings }
}

/// The steps that were taken, by their places among what this build offers.
fn choices(retraced: &Retraced) -> Choices {
    let mut chosen = retraced.story.scenes.iter().map(|scene| scene.choice);
    Choices { root: chosen.next().unwrap_or_default(), actions: chosen.collect() }
}
