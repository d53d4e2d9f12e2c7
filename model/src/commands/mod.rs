//! What the subcommands do, one file a subcommand.

mod check;
mod list;
mod record;

pub(crate) use check::{Check, check};
pub(crate) use list::list;
pub(crate) use record::{compare, record};

use std::io;

use lockstep_model::explore::Settings;
use lockstep_model::runs::{Exit, Failure, Manifest, ManifestError, Performed, RecordError, Run};
use thiserror::Error;

use crate::screen::Screen;

/// What keeps a command from being performed.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    /// The request or the registry is wrong.
    #[error("{}", .0.text)]
    Failure(Failure),
    /// The manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The terminal or file behind the output is gone.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A recorded file cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Trouble {
    /// The exit code it asks for.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Failure(failure) => failure.exit,
            Self::Manifest(_) | Self::Output(_) | Self::Record(_) => Exit::Internal,
        }
    }
}

fn perform<'a>(
    runs: &[&'a Run],
    settings: &Settings,
    manifest: Option<&Manifest>,
    screen: &mut Screen<'_>,
) -> Result<Vec<Performed<'a>>, Trouble> {
    let mut all = Vec::new();
    for run in runs {
        let performed = Performed::new(run, settings, manifest);
        screen.show(&performed)?;
        all.push(performed);
    }
    screen.sum_up(&all)?;
    Ok(all)
}

fn first_failure(performed: &[Performed<'_>]) -> Option<Failure> {
    performed.iter().find_map(|performed| performed.failure.clone())
}
