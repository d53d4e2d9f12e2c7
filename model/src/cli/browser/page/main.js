// The page's own state, and what a person does with it.

const embedded = JSON.parse(byId("embedded").textContent.replace(/\/\*.*\*\//, ""));
const page = { start: null, known: null, view: null, outlook: null, full: false, shows: 0 };

/** Draws the place that the address names. */
async function show() {
  const mine = ++page.shows;
  const place = placeOf(location.hash);
  document.body.dataset.shown = "";
  try {
    const view = await viewAt(place);
    if (mine !== page.shows) return;
    page.view = view;
    draw();
    if (view && !view.recorded) tellOutlook(view, mine);
  } catch (refusal) {
    if (mine !== page.shows) return;
    page.view = null;
    drawRefusal(place, refusal, page.start?.build);
    only("message");
  }
  document.body.dataset.shown = location.hash || "#";
}

/** The view of a place; none for the list of runs. */
async function viewAt(place) {
  if (place.run) {
    const { run, path, at } = place;
    const known = page.known?.run === run ? page.known : null;
    return viewOf(await ask("way", { run, build: place.build ?? page.start.build, path, at }), known);
  }
  const recorded = page.start.recorded;
  if (recorded) return viewOf(recordedWay(recorded, place.at), { path: choicesOf(recorded.trace), trace: recorded.trace });
  drawRuns(await ask("runs", {}), page.start.build);
  return null;
}

function only(shown) {
  for (const id of ["main", "message", "list"]) byId(id).hidden = id !== shown;
  const { view } = page;
  for (const id of ["walk", "full", "copy"]) byId(id).hidden = !view;
  byId("find").hidden = !view || view.recorded || page.known?.run === view.run;
  byId("runs").hidden = Boolean(embedded) || shown === "list";
  byId("run").textContent = view?.run ?? "lockstep-check explore";
  byId("params").textContent = view?.params ?? "";
  document.title = view ? `${view.run}, step ${view.at}` : "lockstep-check explore";
  const known = view && (page.known?.run === view.run ? page.known.trace : view.recorded ? view.ending ?? page.start.recorded.trace : null);
  byId("verdict").hidden = !known;
  byId("verdict").textContent = known ? `violates ${known.property.id}` : "";
}

function draw() {
  const { view } = page;
  only(view ? "main" : "list");
  if (!view) return;
  const steps = view.states.length - 1;
  byId("count").textContent = `step ${view.at} of ${steps}`;
  for (const id of ["first", "back"]) byId(id).disabled = view.at === 0;
  for (const id of ["forward", "last"]) byId(id).disabled = view.at === steps && view.next === undefined;
  byId("full").setAttribute("aria-pressed", page.full);
  drawStory(view, page.full);
  drawHere(view);
}

/** Asks whether the end of the path still leads to a goal, once for each path, and says it when that is known. */
async function tellOutlook(view, mine) {
  const { run, path } = view;
  if (page.outlook?.run !== run || page.outlook.path !== path) {
    page.outlook = { run, path, told: ask("outlook", { run, path }).catch(() => ({ goal: "untold" })) };
  }
  const told = await page.outlook.told;
  if (mine !== page.shows || told.goal === "untold") return;
  if (told.goal === "lost" && view.noReturn === null) {
    view.noReturn = told.lost_from;
    draw();
  } else if (told.goal === "open") {
    byId("here").querySelector(".outlook").replaceChildren(make("p", "quiet", "From the end of this path the group can still reach a goal."));
  }
}

/** Moves the cursor along the path, or on along the counterexample. */
function move(to) {
  const { view } = page;
  if (!view) return;
  const last = view.states.length - 1;
  if (to > last && view.next !== undefined) take(view.next);
  else if (to >= 0 && to <= last && to !== view.at) go(placeIn(view, view.path, to), true);
}

function placeIn(view, path, at) {
  return view.recorded ? { at } : { run: view.run, build: view.build, path, at };
}

/** Takes an action in the state at the cursor; what the path had after it is left. */
function take(choice) {
  const { view } = page;
  const at = view.at + 1;
  const ahead = view.choices[at] === String(choice);
  const path = ahead ? view.path : [...view.choices.slice(0, at), choice].join(".");
  go(placeIn(view, path, at), false);
}

/** Has the run explored, and opens its counterexample. */
async function find() {
  const { run, build } = page.view;
  const button = byId("find");
  Object.assign(button, { disabled: true, textContent: "searching…" });
  try {
    const { trace } = await ask("counterexample", { run });
    know(run, choicesOf(trace), trace);
    await go({ run, build, path: page.known.path.join("."), at: page.known.path.length - 1 }, false);
  } catch (refusal) {
    warn([refusal.message]);
  }
  Object.assign(button, { disabled: false, textContent: "find counterexample" });
}

function know(run, path, trace) {
  page.known = { run, path, trace };
}

function warn(warnings) {
  byId("warnings").replaceChildren(...warnings.map((text) => make("p", "", text)));
}

async function copy() {
  const button = byId("copy");
  const said = await navigator.clipboard.writeText(location.href).then(() => "copied", () => "copy it from the address bar");
  button.textContent = said;
  setTimeout(() => { button.textContent = "copy link"; }, 1500);
}

function toggleFull() {
  page.full = !page.full;
  draw();
}

function toggleTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

const keyed = {
  ArrowLeft: () => move(page.view.at - 1),
  ArrowRight: () => move(page.view.at + 1),
  Home: () => move(0),
  End: () => move(page.view.states.length - 1),
  f: toggleFull,
};

function press(event) {
  if (!page.view || event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "INPUT") return;
  const offer = /^[1-9]$/.test(event.key) ? page.view.offers[Number(event.key) - 1] : undefined;
  const act = offer ? () => take(offer.choice) : keyed[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function listen() {
  const clicked = { first: keyed.Home, back: keyed.ArrowLeft, forward: keyed.ArrowRight, last: keyed.End, full: toggleFull, find, copy, theme: toggleTheme };
  for (const [id, act] of Object.entries(clicked)) byId(id).onclick = act;
  byId("story").onclick = (event) => {
    const row = event.target.closest(".row");
    if (row && !String(getSelection())) move(Number(row.dataset.step));
  };
  byId("here").onclick = (event) => {
    const offer = event.target.closest(".offer");
    if (offer) take(offer.dataset.choice);
  };
  document.onkeydown = press;
  window.onpopstate = show;
}

async function begin() {
  listen();
  try {
    page.start = embedded ? { recorded: embedded, open: null, warnings: [] } : await ask("start", {});
  } catch (refusal) {
    page.start = { warnings: [] };
    drawRefusal({}, refusal);
    return only("message");
  }
  const { open, trace, warnings } = page.start;
  if (trace && open) know(placeOf(open).run, placeOf(open).path.split("."), trace.trace);
  if (trace && !open) page.start.recorded = trace;
  warn(warnings);
  if (open && !location.hash) history.replaceState(null, "", `#${open}`);
  await show();
}

begin();
