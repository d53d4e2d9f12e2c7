//! What the page can ask: each route a function from its query to JSON. `docs/explore.md` says what the fields mean.
//!
//! | route | answer |
//! |---|---|
//! | `/` | the page |
//! | `/api/start` | the build, where to begin, and the counterexample that was given |
//! | `/api/runs` | the runs |
//! | `/api/way?run&build&path&at` | a path followed through a run, and what can happen after its first `at` steps |
//! | `/api/outlook?run&path` | whether the end of a path still leads to a goal |
//! | `/api/counterexample?run` | the counterexample of a run, which is explored on the spot |

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, TryLockError};

use crate::explain::{Choices, Trace, Way, WayError, build};
use crate::runs::{Outlook, Registry, Run, expect_text};
use crate::screen::tell;
use serde_json::{Value, json};

use super::page::{page, recorded};
use super::server::Answer;
use crate::cli::commands::{Trouble, explored};
use crate::cli::options::Effort;

/// Where the page begins.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// Run and path; the list of runs without.
    pub(crate) at: Option<(String, Choices)>,
    /// The counterexample that was given as a file.
    pub(crate) trace: Option<Trace>,
    /// What is odd about it, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// What answers the page.
pub(crate) struct Api<'a> {
    registry: &'a Registry,
    opened: Opened,
    effort: Effort,
    /// Held while a run is explored: one at a time takes all cores.
    exploring: Mutex<()>,
    /// Held while goals are looked for, which may take seconds: pages wait for each other.
    looking: Mutex<()>,
}

/// Why there is no answer.
struct Refusal {
    status: &'static str,
    message: String,
    /// The whole part of a path that leads nowhere.
    nearest: Option<String>,
}

const BAD: &str = "400 Bad Request";
const BUSY: &str = "503 Service Unavailable";
const MISSING: &str = "404 Not Found";
const STALE: &str = "409 Conflict";

/// The fields of a query.
struct Query(BTreeMap<String, String>);

impl<'a> Api<'a> {
    /// The answers for `registry`; runs are explored with so much `effort`.
    pub(crate) fn new(registry: &'a Registry, opened: Opened, effort: Effort) -> Self {
        Self { registry, opened, effort, exploring: Mutex::new(()), looking: Mutex::new(()) }
    }

    /// The part of the page's address that says where it begins.
    pub(crate) fn opening(&self) -> Option<String> {
        let (run, path) = self.opened.at.as_ref()?;
        let at = path.actions.len();
        Some(format!("run={run}&build={}&path={path}&at={at}", build(self.registry)))
    }

    /// The answer to a GET.
    pub(crate) fn answer(&self, target: &str) -> Answer {
        let (route, query) = target.split_once('?').unwrap_or((target, ""));
        if route == "/" {
            return Answer { status: "200 OK", content: "text/html; charset=utf-8", body: page() };
        }
        let (status, value) = match self.routed(route, &Query::of(query)) {
            Ok(value) => ("200 OK", value),
            Err(Refusal { status, message, nearest }) => {
                tell(format_args!("lockstep-check: refused {route}: {message}"));
                (status, json!({ "error": message, "nearest": nearest }))
            }
        };
        Answer { status, content: "application/json", body: value.to_string() }
    }

    fn routed(&self, route: &str, query: &Query) -> Result<Value, Refusal> {
        match route {
            "/api/start" => self.start(),
            "/api/runs" => Ok(self.runs()),
            "/api/way" => self.way(query),
            "/api/outlook" => self.outlook(query),
            "/api/counterexample" => self.counterexample(query),
            _ => Err(Refusal::new(MISSING, format!("there is no page {route}"))),
        }
    }

    fn start(&self) -> Result<Value, Refusal> {
        let Opened { trace, warnings, .. } = &self.opened;
        let trace = trace.as_ref().map(recorded).transpose().map_err(Refusal::unwritten)?;
        Ok(json!({
            "build": build(self.registry), "open": self.opening(), "trace": trace, "warnings": warnings,
        }))
    }

    fn runs(&self) -> Value {
        let listed = |run: &Run| {
            json!({
                "name": run.name, "purpose": run.purpose, "tier": run.tier, "expect": expect_text(run.expect),
                "params": run.params,
            })
        };
        self.registry.runs.iter().map(listed).collect()
    }

    fn way(&self, query: &Query) -> Result<Value, Refusal> {
        let run = self.run(query)?;
        self.is_of_this_build(query)?;
        let path = query.path()?;
        let at = query.0.get("at").map_or(Ok(path.actions.len()), |at| at.parse());
        let at = at.map_err(|_| Refusal::new(BAD, "`at` is no number; the link is damaged".to_owned()))?;
        let way = Way::follow(run, self.registry, &path, at).map_err(|error| Refusal::of(&error, &path))?;
        serde_json::to_value(way).map_err(Refusal::unwritten)
    }

    fn outlook(&self, query: &Query) -> Result<Value, Refusal> {
        let run = self.run(query)?;
        let script = query.path()?.script();
        let _alone = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let outlook = run.model.outlook(&script);
        Ok(match outlook {
            Outlook::LostFrom(step) => json!({ "goal": "lost", "lost_from": step }),
            Outlook::Open => json!({ "goal": "open" }),
            Outlook::Untold => json!({ "goal": "untold" }),
        })
    }

    fn counterexample(&self, query: &Query) -> Result<Value, Refusal> {
        let run = self.run(query)?;
        let _alone = match self.exploring.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Refusal::new(BUSY, "another run is being explored; wait for it".to_owned()));
            }
        };
        let trace = explored(run, self.registry, &self.effort);
        let trace = trace.map_err(|trouble: Trouble| Refusal::new(MISSING, trouble.to_string()))?;
        recorded(&trace).map_err(Refusal::unwritten)
    }

    fn run(&self, query: &Query) -> Result<&Run, Refusal> {
        let name = query.0.get("run").map_or("", String::as_str);
        let run = self.registry.runs.iter().find(|run| run.name == name);
        run.ok_or_else(|| Refusal::new(MISSING, format!("no run of this build is called `{name}`")))
    }

    /// A path is a list of choices, and another build may offer others.
    fn is_of_this_build(&self, query: &Query) -> Result<(), Refusal> {
        let (asked, mine) = (query.0.get("build"), build(self.registry));
        match asked {
            Some(asked) if *asked != mine => {
                let text = format!(
                    "the link is of build {asked}, and this is build {mine}: the same choices may lead elsewhere here"
                );
                Err(Refusal::new(STALE, text))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Refusal {
    fn new(status: &'static str, message: String) -> Self {
        Self { status, message, nearest: None }
    }

    fn unwritten(error: serde_json::Error) -> Self {
        Self::new("500 Internal Server Error", format!("the answer cannot be written: {error}"))
    }

    fn of(error: &WayError, path: &Choices) -> Self {
        let nearest = match error {
            WayError::Beyond { .. } => Some(path.to_string()),
            WayError::Step { step, .. } => Some(path.first(step - 1).to_string()),
            WayError::Malformed(_) | WayError::NoStart(_) => None,
        };
        Self { nearest, ..Self::new(BAD, error.to_string()) }
    }
}

impl Query {
    /// The fields of a query. Names of runs, builds and paths hold nothing that would be escaped.
    fn of(text: &str) -> Self {
        let fields = text.split('&').filter_map(|field| field.split_once('='));
        Self(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn path(&self) -> Result<Choices, Refusal> {
        let text = self.0.get("path").map_or("0", String::as_str);
        text.parse().map_err(|error: WayError| Refusal::new(BAD, error.to_string()))
    }
}
