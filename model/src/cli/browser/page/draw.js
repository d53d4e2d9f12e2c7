// From a view to elements. Text is set as text, never as markup.

/** An element of a class with children, which are elements or text. */
function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const byId = (id) => document.getElementById(id);

/** The rows of the path, with the marks between them. */
function drawStory(view, full) {
  const story = byId("story");
  story.style.setProperty("--lanes", view.lanes.length);
  const head = make("div", "head", make("div", "", "step"), ...view.lanes.map((lane) => make("div", "", lane.title)));
  const rows = view.states.flatMap((_, step) => [row(view, step, full), ...marks(view, step)]);
  story.replaceChildren(head, ...rows, legend());
  if (view.at === view.states.length - 1) story.scrollTop = story.scrollHeight;
  else story.querySelector(".now").scrollIntoView({ block: "nearest" });
}

function row(view, step, full) {
  const name = step === 0 ? "(start)" : view.steps[step - 1].action;
  const what = make("div", "what", make("span", "number", String(step)), make("span", "name", name));
  const bands = step === 0 ? [] : bandsOf(view.steps[step - 1], view.lanes);
  const shown = full && step === view.at;
  const lanes = view.lanes.map((_, lane) => laneOf(view, step, lane, bands, shown));
  const place = step === view.at ? "now" : step > view.at ? "ahead" : "past";
  const wrong = view.faults.some((fault) => fault.step === step) ? " wrong" : "";
  const element = make("div", `row ${place}${wrong}`, what, ...lanes);
  element.dataset.step = step;
  element.title = name;
  return element;
}

function laneOf(view, step, lane, bands, shown) {
  const happened = step === 0 ? { events: [], changes: [] } : view.steps[step - 1];
  const events = happened.events.filter((event) => event.lane === lane);
  const changes = step === 0
    ? view.states[0][lane].cells.map(([field, to]) => ({ lane, field, from: null, to }))
    : happened.changes.filter((change) => change.lane === lane);
  const life = step === 0 ? "lives" : view.lives[step - 1][lane];
  const told = life === "ends" ? [] : changes.filter((change) => step === 0 || !view.tellsEntries || change.field !== WAITS_IN);
  const cells = make("div", "cells", ...decisions(view, step, lane), ...events.flatMap(eventOf), ...told.map(changeOf));
  const bars = step === 0 ? [] : view.bars[step - 1][lane].map(({ kind, part }) => make("i", `bar ${kind} ${part}`));
  const dot = events.map((event) => ({ begin: "turn", end: "end", fact: "fact", turn: "turn", step: "other" })[event.kind]).find(Boolean);
  const parts = [...bars, dot && make("i", `dot ${dot}`), bandOf(bands, lane), cells, shown && whole(view.states[step][lane], changes)];
  return make("div", `lane life-${life}`, ...parts.filter(Boolean));
}

/** What guards that diverged said in a lane. */
function decisions(view, step, lane) {
  const here = (guard) => guard.decisions.filter((decision) => decision.step === step && decision.lane === lane);
  return (view.diverged ?? []).flatMap((guard) => here(guard).map(({ value }) => make("div", "guard", `◆ ${guard.guard}? `, make("b", "", value))));
}

function eventOf(event) {
  switch (event.kind) {
    case "begin": return [make("div", "begins", "begins")];
    case "end": return [make("div", "ends", "✕ ends here")];
    case "enter": return [make("div", "enters", `▶ ${written(event.collective)}`)];
    case "retire": return [make("div", "enters", `◀ ${written(event.collective)} is over`)];
    case "fact": return [make("div", "to", event.fact)];
    default: return [];
  }
}

function changeOf({ field, from, to }) {
  const old = from === null ? null : make("span", "from", `${from} → `);
  return make("div", "", make("span", "field", `${field} `), old, make("span", from === null && to !== null ? "" : "to", to ?? "gone"));
}

/** The band or thread of a lane, joined to the lanes beside it that meet in the same collective and broken from those that do not. */
function bandOf(bands, lane) {
  const band = bands[lane];
  if (!band) return null;
  const [left, right] = [bands[lane - 1], bands[lane + 1]];
  const cross = right && !right.thread && !(band.meets && right.meets) ? make("span", "cross", "✕") : null;
  const broken = band.meets ? "" : " broken";
  if (band.thread) return make("div", `thread${broken}`, cross);
  const end = (other, joined, threaded) => (other?.thread ? ` ${threaded}` : band.meets && other?.meets ? ` ${joined}` : "");
  return make("div", `band${broken}${end(right, "joined", "leads-on")}${end(left, "joins", "goes-on")}`, band.label, cross);
}

/** Every cell of a lane, those that changed marked. */
function whole({ cells }, changes) {
  const changed = new Set(changes.map((change) => change.field));
  const cell = ([field, value]) => make("div", changed.has(field) ? "changed" : "", make("span", "field", `${field} `), value);
  return make("div", "cells whole", ...cells.map(cell));
}

/** What is to be said below a row. */
function marks(view, step) {
  const last = step === view.states.length - 1;
  const said = [];
  if (view.noReturn === step && !last) said.push(make("div", "mark no-return", "point of no return: from here on no benign steps lead to a goal"));
  if (view.loopFrom === step) said.push(make("div", "mark loop", "from here on, for ever"));
  if (last && view.ending) {
    const { property, ending } = view.ending;
    said.push(make("div", "mark ending", `${property.id} violated after ${step} steps: ${ending}`, make("p", "", property.sentence)));
  }
  return said;
}

function legend() {
  return make("p", "legend", "blue dot: a fact reaches the lane · ring: its loop turns · ▶ enters, ◀ is over on the device · "
    + "blue bar: waits · violet bar: queued on the device · green band: all lanes met in it · red and broken: they did not");
}

/** The state at the cursor: what is wrong in it, and what can happen next. */
function drawHere(view) {
  const step = view.at;
  const name = step === 0 ? "the start" : view.steps[step - 1].action;
  const parts = [make("section", "", make("h2", "", `After step ${step}`), make("p", "name", name))];
  const faults = view.faults.filter((fault) => fault.step === step);
  parts.push(...faults.map((fault) => wrongBox(`violates ${fault.property}`, fault.sentence)));
  if (view.ending && step === view.states.length - 1 && faults.length === 0) parts.push(wrongBox(`violates ${view.ending.property.id}`, view.ending.property.sentence));
  if (view.noReturn !== null && step >= view.noReturn) parts.push(lostBox(view.noReturn));
  parts.push(make("section", "outlook"), offersOf(view), keys());
  byId("here").replaceChildren(...parts);
}

function wrongBox(title, sentence) {
  return make("section", "wrong", make("b", "", title), make("p", "", sentence));
}

function lostBox(step) {
  return make("section", "lost", `The point of no return was step ${step}: from there on no benign steps lead to a goal.`);
}

function offersOf(view) {
  if (view.recorded) {
    return make("section", "quiet", "This is the counterexample as it was recorded. To take other steps, open it on the build that wrote it, if that has its run: `lockstep-check explore FILE`.");
  }
  if (view.offers.length === 0) {
    const wrong = view.faults.some((fault) => fault.step === view.at);
    const said = wrong ? "The model goes no further." : view.may_stop ? "This is a proper end." : "This is no proper end.";
    return make("section", "", make("h2", "", "Nothing can happen"), make("p", "", said));
  }
  const offers = view.offers.map((offer, index) => offerOf(view, offer, index));
  return make("section", "", make("h2", "", `What can happen (${view.offers.length})`), make("div", "offers", ...offers));
}

function offerOf(view, { choice, action, events, fault, who }, index) {
  const happens = events.flatMap(happensOf).filter((text) => text !== action);
  const ahead = view.choices[view.at + 1] === String(choice);
  const known = view.next === String(choice) && view.at + 1 === view.choices.length;
  const button = make("button", `offer${fault ? " bad" : ""}${ahead || known ? " next" : ""}`,
    make("kbd", "", index < 9 ? String(index + 1) : ""), make("span", "name", action),
    happens.length ? make("span", "happens", happens.join(" · ")) : null,
    fault ? make("span", "tag", `leads to: violates ${fault.property}`) : null,
    known ? make("span", "tag way", "the counterexample goes on here") : null);
  Object.assign(button.dataset, { choice, who });
  return button;
}

function happensOf(event) {
  switch (event.kind) {
    case "enter": return [`enters ${written(event.collective)}`];
    case "complete": return event.lane === 0 ? [`${written(event.collective)} completes`] : [];
    case "mismatch": return [`${written(event.collective)} does not match`];
    case "decide": return [`${event.guard}? ${event.value}`];
    default: return [];
  }
}

function keys() {
  const key = (name, text) => [make("kbd", "", name), ` ${text}  `];
  return make("p", "keys", ...key("←", "back"), ...key("→", "forward"), ...key("1–9", "take"), ...key("f", "full state"), ...key("Home End", "along the path"));
}

/** Why a place cannot be shown, and where to go instead. */
function drawRefusal(place, refusal, build) {
  const link = (text, to) => Object.assign(make("a", "button", text), { href: hashOf(to) });
  const ways = [];
  if (refusal.status === 409) ways.push(link("follow the same choices on this build", { ...place, build }));
  if (refusal.nearest) ways.push(link("go as far as the path leads", { ...place, build, path: refusal.nearest, at: refusal.nearest.split(".").length - 1 }));
  if (place.run && [400, 409].includes(refusal.status)) ways.push(link("open the run at its start", { run: place.run, build, path: "0", at: 0 }));
  ways.push(Object.assign(make("a", "button", "to the start page"), { href: "#" }));
  byId("message").replaceChildren(make("h2", "", "This cannot be shown"), make("p", "", refusal.message), make("div", "ways", ...ways));
}

/** The list of runs, which a word in the field narrows. */
function drawRuns(runs, build) {
  const field = Object.assign(make("input"), { type: "search", placeholder: "narrow by words: decode mutant…" });
  field.setAttribute("aria-label", "Narrow the list of runs");
  const cells = (run) => [run.purpose, run.expect, run.tier, run.params].map((text) => make("td", "", text));
  const rows = runs.map((run) => {
    const link = Object.assign(make("a", "", run.name), { href: hashOf({ run: run.name, build, path: "0", at: 0 }) });
    return make("tr", "", make("td", "", link), ...cells(run));
  });
  field.oninput = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  };
  const head = make("tr", "", ...["run", "purpose", "expected", "tier", "bounds"].map((text) => make("th", "", text)));
  byId("list").replaceChildren(field, make("table", "", make("thead", "", head), make("tbody", "", ...rows)));
}
