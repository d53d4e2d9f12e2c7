// What is drawn: the states along a way, with what happened between them. A way of the server and a recorded trace have the same shapes.

const WAITS_IN = "waits in";

/** The lanes after a step. */
function after(lanes, changes) {
  const next = lanes.map(({ title, cells }) => ({ title, cells: cells.map((cell) => [...cell]) }));
  for (const { lane, field, to } of changes) {
    const cells = next[lane].cells;
    const place = cells.findIndex(([name]) => name === field);
    if (to === null) cells.splice(place, 1);
    else if (place < 0) cells.push([field, to]);
    else cells[place][1] = to;
  }
  return next;
}

/** A collective as it is written: site and shape. */
function written({ site, shape }) {
  return shape === undefined ? site : `${site}[${shape}]`;
}

/** For each step and lane, the bars that it draws: what the lane has entered and what is not over. */
function barsOf(steps, lanes) {
  const open = new Map();
  const count = (lane, kind) => open.get(`${lane} ${kind}`) ?? 0;
  return steps.map(({ events }) => {
    const before = lanes.map((_, lane) => ["control", "device"].map((kind) => count(lane, kind)));
    for (const { lane, kind, collective } of events) {
      if (kind === "end") for (const stream of ["control", "device"]) open.set(`${lane} ${stream}`, 0);
      const by = { enter: 1, complete: -1, retire: -1 }[kind];
      if (!by || lane === null) continue;
      const stream = collective.communicator === "device" ? "device" : "control";
      open.set(`${lane} ${stream}`, Math.max(0, count(lane, stream) + by));
    }
    return before.map((counts, lane) => counts.flatMap((was, index) => {
      const kind = ["control", "device"][index];
      const is = count(lane, kind);
      if (!was && !is) return [];
      return [{ kind, part: was && is ? "goes-on" : was ? "ends" : "begins" }];
    }));
  });
}

/** For each step and lane, whether the lane lives, ends there, begins there, or is gone. */
function livesOf(steps, lanes) {
  const lives = lanes.map(() => "lives");
  return steps.map(({ events }) => {
    lives.forEach((life, lane) => { lives[lane] = { begins: "lives", ends: "gone" }[life] ?? life; });
    for (const { lane, kind } of events) if (kind === "begin" || kind === "end") lives[lane] = `${kind}s`;
    return [...lives];
  });
}

/**
 * The band of each lane in a step: the collective that ends there, and whether the lanes met in it. Between two lanes that are no neighbours, a
 * thread leads on through those that are in none.
 */
function bandsOf({ events }, lanes) {
  const ends = lanes.map((_, lane) => events.find((event) => event.lane === lane && ["complete", "mismatch"].includes(event.kind)));
  const last = ends.findLastIndex(Boolean);
  let meets = null;
  return ends.map((end, lane) => {
    if (end) meets = end.kind === "complete";
    if (end) return { label: written(end.collective), meets };
    return meets !== null && lane < last ? { thread: true, meets } : undefined;
  });
}

/** The view of a way; `known` is a counterexample whose marks hold as far as the way follows it. */
function viewOf(way, known) {
  const states = [way.start.lanes];
  for (const step of way.steps) states.push(after(states.at(-1), step.changes));
  const lanes = way.start.lanes;
  const path = way.path.split(".");
  const followed = known ? shared(path, known.path) : -1;
  const marked = (mark) => (mark !== undefined && mark !== null && mark < followed ? mark : null);
  return {
    ...way, states, lanes, followed, choices: path,
    bars: barsOf(way.steps, lanes),
    lives: livesOf(way.steps, lanes),
    tellsEntries: way.steps.some((step) => step.events.some((event) => event.collective)),
    noReturn: marked(known?.trace.point_of_no_return),
    loopFrom: known && followed === known.path.length ? marked(known.trace.loop_from) : null,
    ending: known && followed === known.path.length && path.length === followed ? known.trace : null,
    next: known && followed === path.length ? known.path[followed] : undefined,
  };
}

/** How many entries two paths begin with in common. */
function shared(one, other) {
  const differs = one.findIndex((choice, index) => choice !== other[index]);
  return differs < 0 ? one.length : differs;
}

/** A recorded trace as a way of which nothing is known but what was recorded. */
function recordedWay({ trace, diverged }, at) {
  const path = [trace.start.choice, ...trace.steps.map((step) => step.choice)].join(".");
  const steps = trace.steps.length;
  const wanted = at === null ? steps : Number(at);
  if (!(Number.isInteger(wanted) && wanted >= 0 && wanted <= steps)) {
    throw Object.assign(new Error(`the counterexample has steps 0 to ${steps}, and no step ${at}; the link is damaged`), { status: 400 });
  }
  return { ...trace, path, diverged, at: wanted, faults: [{ step: steps, property: trace.property.id, sentence: trace.property.sentence }], offers: [], may_stop: false, recorded: true };
}

/** The path of a trace as choices. */
function choicesOf(trace) {
  return [trace.start.choice, ...trace.steps.map((step) => step.choice)].map(String);
}
