// Unread counts in the tree, the title and the list's head. Actions on this page update them at once; the server
// corrects them: on an event, else once a minute.
import { act } from "./actions.js";
import * as live from "./live.js";
import { get } from "./net.js";
import { links } from "./treeview.js";
import { number, t, tn } from "./words.js";

// Feeds whose count differed from the one shown here; the rows of the list still have to follow.
export const others = new Set();
// The progress of the import that every page shows.
export const job = {};
const EVERY = 60000;
let etag = null;
let moves = 0;
let changing = 0;
let asking = Promise.resolve();
let waiting = null;
let growing = null;
// Events arrived while the page was hidden: rows may have changed even if the counts are equal.
let missed = false;
let unseen = false;
let soon = { at: Infinity, timer: 0 };
let settle = async () => {};
let onNewer = () => {};
let onUnknown = async () => {};

export function write(link, count) {
  const shown = link.querySelector("b");
  if (!shown) return;
  shown.textContent = count > 0 ? number(count) : "";
  // If feeds without unread entries are hidden, this one stays until the user opens another stream.
  if (!count && link.classList.contains("has")) link.classList.add("stay");
  link.dataset.unread = count;
  link.classList.toggle("has", count > 0);
}

function add(link, delta) {
  write(link, Math.max(0, Number(link.dataset.unread ?? 0) + delta));
}

export function move(feed, delta) {
  moves += 1;
  const folders = new Set();
  for (const link of links(`a[data-feed="${feed}"]`)) {
    add(link, delta);
    for (let at = link.closest(".folder"); at; at = at.parentElement.closest(".folder")) folders.add(at);
  }
  for (const folder of folders) add(folder.querySelector(":scope > a"), delta);
  const follows = links(`a[data-feed="${feed}"] .person`).length ? ', a[data-folder="following"]' : "";
  for (const link of document.querySelectorAll(`.tree a[data-all]${follows}`)) add(link, delta);
  // The server may not count the entry: then its counts are still the same, and this page's wrong.
  forget();
}

const pane = () => document.querySelector(".pane-list");

function title() {
  // Other pages keep their titles.
  if (!pane()) return;
  const all = document.querySelector(".tree a[data-all]");
  // The current list, not one still loading; a stream that isn't in the tree keeps its original number.
  const here = links(`a[href="/read/${CSS.escape(pane().dataset.stream)}"]`)[0];
  const unread = Number(here?.dataset.unread ?? 0);
  const sub = document.getElementById("unread");
  if (sub && here) sub.textContent = unread ? tn("{n} unread", "{n} unread", unread) : t("All read");
  const total = Number(all?.dataset.unread ?? 0);
  if (all) document.title = document.title.replace(/^(\(\d+\) )?/, total ? `(${total}) ` : "");
}

const tree = () => document.querySelector("#tree nav");

// For changes of the tree on this page: the new shape is shown already, and pending answers don't include it.
export async function own(change) {
  changing += 1;
  moves += 1;
  try {
    return await change;
  } finally {
    changing -= 1;
    moves += 1;
    if (tree()) tree().dataset.shape = "";
  }
}

export const busy = () => changing || document.querySelector("#tree .dragged, #tree .menu[open], dialog[open]");

// Shows names, positions and feeds that another device or an import has changed.
async function reshape(shape) {
  const known = tree()?.dataset.shape;
  if (known === "") tree().dataset.shape = shape;
  if (!known || known === shape) return;
  if (!busy()) await (growing ??= onUnknown().finally(() => (growing = null)));
  // Try again later.
  if (tree()?.dataset.shape !== shape) etag = null;
}

async function show({ total, feeds, folders, newer, shape, notes }) {
  const before = moves;
  await reshape(shape);
  if (moves !== before) return forget();
  for (const link of links("a[data-feed]")) {
    const count = feeds[link.dataset.feed] ?? 0;
    if (unseen || Number(link.dataset.unread ?? 0) !== count) others.add(link.dataset.feed);
    write(link, count);
  }
  for (const link of [...document.querySelectorAll("a[data-folder]"), ...links("a[data-folder]")]) write(link, folders[link.dataset.folder] ?? 0);
  for (const link of document.querySelectorAll(".tree a[data-all]")) write(link, total);
  for (const link of document.querySelectorAll(".bell")) write(link, notes);
  unseen = false;
  title();
  onNewer(newer);
  if (others.size && pane()) act("agree");
}

// One request at a time: a 304 refers to the previous answer, which must be shown first.
export function refresh() {
  return (waiting ??= asking.then(() => {
    waiting = null;
    const answer = fetched();
    asking = answer.catch(() => {});
    return answer;
  }));
}

const shown = () => pane()?.dataset.snapshot ?? "";

async function fetched() {
  if (missed) etag = null, (unseen = true);
  missed = false;
  await settle();
  const before = moves;
  const snapshot = shown();
  const url = `/api/counts?snapshot=${encodeURIComponent(snapshot)}`;
  const answer = await get(url, etag);
  // Entries marked or moved meanwhile aren't in this answer; their own event requests a new one.
  if (!answer || moves !== before || changing) return;
  // Another list was loaded first, which has its own new entries.
  if (shown() !== snapshot) return fetched();
  etag = answer.etag;
  await show(answer.data);
}

export function forget() {
  etag = null;
  title();
}

// The import page listens itself.
const chip = (data) => document.getElementById("job") || (Object.assign(job, data), act("chip"));

// A thousand readers of one feed must not all send requests at the same moment.
function told(kind, data) {
  const { spread_ms: spread = 0 } = data;
  if (kind === "import") return chip(data);
  const at = Date.now() + Math.random() * spread;
  if (at >= soon.at) return;
  clearTimeout(soon.timer);
  soon = { at, timer: setTimeout(ask, at - Date.now()) };
}

function ask() {
  soon.at = Infinity;
  if (document.hidden) missed = true;
  else refresh();
}

export function start(newer, grown, sent) {
  onNewer = newer;
  onUnknown = grown;
  settle = sent;
  title();
  live.start(told);
  // The title's count matters even in a hidden tab; once a minute is enough for that.
  setInterval(() => (missed || !live.alive()) && refresh(), EVERY);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    // A page that was suspended missed events too.
    missed ||= !live.alive();
    refresh();
  });
}
