// Where the page is: a run, a build, a path and a step, all in the part of the address after `#`, so that every state has a link.

/** The place that an address names. Without `run` it is the list of runs, or the recorded counterexample. */
function placeOf(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const path = fields.get("path") ?? "0";
  const at = fields.get("at") ?? String(path.split(".").length - 1);
  return { run: fields.get("run"), build: fields.get("build"), path, at: fields.has("run") ? at : fields.get("at") };
}

function hashOf({ run, build, path, at }) {
  return run ? `#run=${run}&build=${build}&path=${path}&at=${at}` : `#at=${at}`;
}

/** Goes to a place: as a new entry of the browser's history, or in the place of the last one. */
function go(place, replaces) {
  history[replaces ? "replaceState" : "pushState"](null, "", hashOf(place));
  return show();
}

/** What the server says; throws an Error with `status` and `nearest` if it refuses. */
async function ask(route, fields) {
  let answer;
  try {
    answer = await fetch(`/api/${route}?${new URLSearchParams(fields)}`);
  } catch {
    throw Object.assign(new Error("the server is gone; start `lockstep-check explore` again"), { status: 0 });
  }
  const said = await answer.json().catch(() => ({ error: `the server answers ${answer.status}` }));
  if (answer.ok) return said;
  throw Object.assign(new Error(said.error), { status: answer.status, nearest: said.nearest });
}
