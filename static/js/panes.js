// Which stream and entry are shown, and the addresses and history that say so: back restores everything.
import * as counts from "./counts.js";
import { load } from "./net.js";
import * as rows from "./rows.js";

export const reader = () => document.querySelector(".reader");
const list = () => document.querySelector(".pane-list");
const article = () => document.getElementById("article");
export const stream = () => document.getElementById("rows")?.dataset.url ?? "/read/all";
const narrow = matchMedia("(max-width: 699px)");

function pane(name) {
  reader().dataset.pane = name;
}

function remember(extra = {}) {
  const snapshot = document.getElementById("rows")?.dataset.snapshot;
  history.replaceState({ ...history.state, snapshot, scroll: list()?.scrollTop ?? 0, ...extra }, "");
}

function address(id) {
  const url = new URL(stream(), location.origin);
  if (id) url.searchParams.set("entry", id);
  return url.pathname + url.search;
}

export const openId = () => new URL(location.href).searchParams.get("entry");

export async function open(row, { push = true } = {}) {
  const id = row.dataset.id;
  rows.select(row);
  rows.setRead(row, true);
  if (push) {
    remember();
    const step = openId() ? "replaceState" : "pushState";
    history[step]({ opened: openId() ? history.state?.opened : true }, "", address(id));
  }
  pane("article");
  remember();
  if (await load(`${address(id)}`, "article")) {
    article().scrollTop = 0;
    rows.sync(id);
    if (narrow.matches) document.getElementById("entry-title")?.focus({ preventScroll: true });
  }
}

export function close({ push = true } = {}) {
  if (!openId() && reader().dataset.pane !== "article") return;
  if (push && history.state?.opened) return history.back();
  if (push) history.replaceState({}, "", address());
  pane("list");
  const row = rows.current();
  if (narrow.matches || !push) row?.querySelector("a").focus({ preventScroll: true });
  if (!narrow.matches) load("/read/nothing", "article");
}

export async function go(url, { push = true, state = null } = {}) {
  await rows.send();
  if (push) {
    remember();
    history.pushState({}, "", url);
  }
  const target = new URL(url, location.origin);
  const entry = target.searchParams.get("entry");
  if (state?.snapshot) target.searchParams.set("snapshot", state.snapshot);
  mark(target.pathname);
  if (!(await load(target.pathname + target.search, "stream"))) return;
  pane(entry ? "article" : "list");
  mark(target.pathname);
  counts.forget();
  list().scrollTop = state?.scroll ?? 0;
  if (entry && rows.byId(entry)) rows.select(rows.byId(entry));
  remember();
}

function mark(path) {
  for (const link of document.querySelectorAll(".tree a[data-stream]")) {
    if (new URL(link.href).pathname === path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function restore(event) {
  const here = new URL(location.href);
  const entry = here.searchParams.get("entry");
  here.searchParams.delete("entry");
  if (here.pathname + here.search !== stream()) return go(location.href, { push: false, state: event.state });
  const row = entry && rows.byId(entry);
  if (row) await open(row, { push: false });
  else if (entry) await go(location.href, { push: false, state: event.state });
  else close({ push: false });
}

export function start() {
  addEventListener("popstate", restore);
  addEventListener("pagehide", () => remember());
  const [entry] = performance.getEntriesByType("navigation");
  // Come back from another site: the same rows in the same order, at the same place.
  if (entry?.type === "back_forward" && history.state?.snapshot) {
    go(location.href, { push: false, state: history.state });
  } else if (openId() && rows.byId(openId())) {
    rows.select(rows.byId(openId()));
    rows.setRead(rows.byId(openId()), true);
  }
}
