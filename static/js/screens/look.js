// View options of a list. Loads with the first of its keys or buttons.
import { register } from "../actions.js";
import * as list from "../list.js";
import { post } from "../net.js";
import * as panes from "../panes.js";
import * as rows from "../rows.js";
import { say, toast } from "../toast.js";

// View, density, order and filter are saved for this stream; the rows stay unless the options require others.
async function look(changes) {
  const { stream: name } = list.pane().dataset;
  const box = document.getElementById("rows");
  try {
    say((await post("/read/view", { stream: name, ...changes }, true)).text);
  } catch (failure) {
    return toast(failure.message);
  }
  if (!panes.stays(box)) return;
  const url = new URL(panes.stream(), location.origin);
  for (const field of ["view", "density", "sort", "show"]) url.searchParams.delete(field);
  const same = !("sort" in changes) && !("show" in changes);
  const all = list.all();
  const row = rows.current();
  // Load only as many whole texts as lead to the selected row.
  const count = changes.view === "expanded" ? all.indexOf(row) + 11 : all.length;
  const state = same ? { snapshot: list.pane().dataset.snapshot, rows: count, selected: row?.dataset.id } : {};
  history.replaceState({}, "", url);
  await panes.go(url.href, { push: false, state });
}

function sent() {
  const button = document.querySelector('form[data-act="view"] [data-sent]');
  button?.removeAttribute("data-sent");
  if (button) look({ [button.name]: button.value });
}

const views = ["panes", "list", "expanded"].map((view) => [`view-${view}`, panes.when("stream", () => void look({ view }))]);
register({ ...Object.fromEntries(views), "view-send": sent });
