//! The steps of models that are more than one group's world: a step that no run takes is not checked, whatever the model allows.

/// The kinds of step of a model, in the order of their numbers: first those that each of its runs takes.
#[derive(Debug)]
pub struct Steps {
    /// What the model is of.
    pub of: &'static str,
    /// Steps that each run must take, or it proves nothing.
    pub everywhere: &'static [&'static str],
    /// Steps that one run must take.
    pub somewhere: &'static [&'static str],
    /// Those of them that no run need take, with the reason.
    pub excused: &'static [(&'static str, &'static str)],
}

impl Steps {
    /// Names of all as points.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.everywhere.iter().chain(self.somewhere).map(|step| format!("{}: {step}", self.of)).collect()
    }

    /// Why a point need not be reached, if so.
    #[must_use]
    pub fn excuse(&self, name: &str) -> Option<&'static str> {
        super::excuse(self.of, self.excused, name)
    }
}

/// Of both groups at once.
pub const TWO_GROUPS: Steps = Steps {
    of: "two groups",
    everywhere: &[
        "request accepted",
        "tokens sent",
        "handshake answered",
        "list delivered",
        "pages landed",
        "row landed",
        "write done",
        "fence done",
        "decode forward retired",
        "prefill forward retired",
        "decode round",
        "prefill round",
    ],
    somewhere: &[
        "request given up",
        "revocation delivered",
        "failure delivered",
        "revocation lost",
        "failure lost",
        "write failed",
        "write posted again",
        "write yielded",
        "link broken",
        "break noticed by decode",
        "break noticed by prefill",
        "decode replaced",
        "prefill replaced",
        "line broken",
        "line's end noticed",
        "line begun",
        "decode clock ticked",
        "prefill clock ticked",
    ],
    excused: &[("write yielded", "a fault of one hazard's fabric")],
};

/// Across epochs.
pub const EPOCHS: Steps = Steps {
    of: "epochs",
    everywhere: &["group", "accept", "hear", "lose", "crash", "epoch ends", "epoch begins"],
    somewhere: &["leave", "peer lost", "stop"],
    excused: &[],
};
