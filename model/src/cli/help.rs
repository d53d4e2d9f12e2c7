//! What `--help` says below the options: exit codes, what is not plain, and examples.

pub(super) const EXIT_CODES: &str = "\
Exit codes (of the first run that is not as it must be):
   0  everything is as expected
   2  the command line is wrong
  11  a rank is stuck
  12  a safety property is violated
  13  progress fails
  14  the model panics
  20  a run that holds proves nothing: a witness was not reached
  21  recorded counts, files or certificates are stale
  22  no verdict: a budget was spent, or a run is missing
  23  a run that must fail does not, or fails by another property than it must
  70  the checker itself is at fault, or a file cannot be read or written";

pub(super) const AFTER_CHECK: &str = "\
Examples:
  lockstep-check check                              every quick run
  lockstep-check check RUN --show                   one run, with its counterexample
  lockstep-check check RUN --trace FILE             the same, as a file for `explain` and `replay`
  lockstep-check check --tier nightly --shard 2/5 --certificates out --junit out/junit.xml
  lockstep-check check --most-memory 4GiB --most-seconds 600
  lockstep-check check RUN --checkpoint run.checkpoint                        a run that may be stopped,
  lockstep-check check RUN --resume run.checkpoint --checkpoint run.checkpoint    and goes on

With GITHUB_ACTIONS=true, failures are annotated; a summary is added to the file GITHUB_STEP_SUMMARY names.
Exit codes: see `lockstep-check --help`.";

pub(super) const AFTER_EXPLAIN: &str = "\
A trace file is written by `check RUN --trace FILE`, or by a protocol of yours with --trace FILE. Exit code 23 if the run has
no counterexample, because it holds.

Examples:
  lockstep-check explain decode-mutant-loses-pages
  lockstep-check explain trace.json --format svg --output trace.svg";

pub(super) const AFTER_MUTATE: &str = "\
Each row is a rule of the protocol that is broken on purpose, and the property that must notice. Exit code 23 if one is not
noticed, or by another property than must; 22 if a budget was spent before one was judged, which says nothing of it.";

pub(super) const AFTER_NEW: &str = "\
docs/guide.md goes from here to a proof in a quarter of an hour.

Example:
  lockstep-check new ready && cargo run --manifest-path ready/Cargo.toml";

pub(super) const AFTER_RECORD: &str = "\
Review the changed counts like code: each is a change of what is proved. Nothing is written if a run is not as it must be;
then the exit code is that run's.";

pub(super) const AFTER_REPLAY: &str = "\
Exit code 0 if the steps lead to the same violation, 21 if a step is not possible any more or leads elsewhere, 23 if all are
and another property is violated in the end, or none.

Example:
  lockstep-check check decode-mutant-loses-pages --trace trace.json && lockstep-check replay trace.json";

pub(super) const AFTER_COVERAGE: &str = "\
Exit code 20 if a point is reached by no proof and is not excused, or is excused and reached; as in `check` if a proof fails,
and so 22 if a budget was spent before its end.";

pub(super) const AFTER_MERGE: &str = "\
Fails if a run of the tier has no certificate (22), if one comes from other sources, another manifest or another
schema (21), if two of one run say different things or one contradicts itself (70), or as the first run that is not
as it must be.

Example:
  lockstep-check merge out/ --tier nightly --junit junit.xml";

pub(super) const AFTER_ESTIMATE: &str = "\
Looks at the beginning of a run, 5 seconds if no budget is given. A line through the growth of its levels says how much
is still to come; levels.toml has the levels of recorded runs, and so how wrong such lines were. The range is where four
in five of the recorded runs ended that once looked like this one, those of the same family first: measured over all of
them, each left out when it is its turn, ranges held four times in five, also where only smaller runs were asked, and
went to four times the least in the mean, to less the more of the run is seen. Time and memory are scaled, and only as good as that: memory by what states take at
the beginning, within a factor of two.

Exit code 22 if growth does not slow down yet or no recorded run looked like this, so that nothing can be said. With
--most-states, the states that are seen, and so the estimate of states, are the same on any machine.

Example:
  lockstep-check estimate decode-2x2-4p-transfers-normal --most-seconds 10";

pub(super) const AFTER_EXPLORE: &str = "\
Prints the address of a page, and serves it to this machine alone until Ctrl-C. The address of each state is a link that
leads to the same state wherever the same build runs. The options of effort bound the search for a counterexample that
the page can start: 60 seconds if no budget is given.

Examples:
  lockstep-check explore conventional-local-admission-normal
  lockstep-check explore trace.json
  lockstep-check explore trace.json --output counterexample.html";

pub(super) const AFTER_SIM: &str = "\
Each seed takes so many steps at random, none of them twice, or all that there are; the same seeds find the same on any
machine with any number of threads. Without a violation it says so and exits 0, which is no proof: only `check` proves.
A violation exits as in `check`; so does a run that must fail and does not here (23). A budget that is spent before all
seeds are done exits 22; budgets are looked at between seeds.

Example:
  lockstep-check sim decode-2x2-4p-transfers-normal --seeds 1000 --steps 100000";

pub(super) const AFTER_VALIDATE: &str = "\
`lockstep serve --trace DIR` writes the traces (docs/rank-trace.md). A trace that is cut off, as when a process is killed, is judged as far
as it goes. Exit code 21 if a trace leaves the model; 2 if traces cannot be judged: damaged, of another build, or of some ranks only.

Example:
  lockstep-check validate DIR";
