// Unread counts in the tree, the title and the list's head: moved at once by what is done here, and
// set right by the server: when it says so, else once a minute.
import { act } from "./actions.js";
import * as live from "./live.js";
import { get } from "./net.js";
import { t, tn } from "./words.js";

// Feeds whose count was not the one that is shown here; the rows of the list are still to follow.
export const others = new Set();
// Where the import is that every page tells of.
export const job = {};
const EVERY = 60000;
let etag = null;
let moves = 0;
let changing = 0;
let asking = Promise.resolve();
let waiting = null;
let growing = null;
// Told while nobody looked; what has been read then may be as much as has become unread.
let missed = false;
let unseen = false;
let soon = { at: Infinity, timer: 0 };
let settle = async () => {};
let onNewer = () => {};
let onUnknown = async () => {};

export function write(link, count) {
  const number = link.querySelector("b");
  if (!number) return;
  number.textContent = count > 0 ? count : "";
  // Where feeds without unread entries are hidden, this one stays until the reader goes elsewhere.
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
  for (const link of document.querySelectorAll(`.tree a[data-feed="${feed}"]`)) {
    add(link, delta);
    for (let at = link.closest(".folder"); at; at = at.parentElement.closest(".folder")) folders.add(at);
  }
  for (const folder of folders) add(folder.querySelector(":scope > a"), delta);
  const follows = document.querySelector(`.tree a[data-feed="${feed}"] .person`) ? ', a[data-folder="following"]' : "";
  for (const link of document.querySelectorAll(`.tree a[data-all]${follows}`)) add(link, delta);
  title();
}

const pane = () => document.querySelector(".pane-list");

function title() {
  const all = document.querySelector(".tree a[data-all]");
  // Of the list that is here, not of one on its way; what the tree does not show keeps the number that came with it.
  const here = document.querySelector(`.tree a[href="/read/${CSS.escape(pane().dataset.stream)}"]`);
  const unread = Number(here?.dataset.unread ?? 0);
  const sub = document.getElementById("unread");
  if (sub && here) sub.textContent = unread ? tn("{n} unread", "{n} unread", unread) : t("All read");
  const total = Number(all?.dataset.unread ?? 0);
  if (all) document.title = document.title.replace(/^(\(\d+\) )?/, total ? `(${total}) ` : "");
}

const tree = () => document.querySelector("#tree nav");

// The tree is changed here: the shape it has then is shown already, and answers on the way do not know it.
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

// Names, places and feeds that another device or an import has changed.
async function reshape(shape) {
  const known = tree()?.dataset.shape;
  if (known === "") tree().dataset.shape = shape;
  if (!known || known === shape) return;
  if (!busy()) await (growing ??= onUnknown().finally(() => (growing = null)));
  // Later.
  if (tree()?.dataset.shape !== shape) etag = null;
}

async function show({ total, feeds, folders, newer, shape, notes }) {
  const before = moves;
  await reshape(shape);
  if (moves !== before) return forget();
  for (const link of document.querySelectorAll(".tree a[data-feed]")) {
    const count = feeds[link.dataset.feed] ?? 0;
    if (unseen || Number(link.dataset.unread ?? 0) !== count) others.add(link.dataset.feed);
    write(link, count);
  }
  for (const link of document.querySelectorAll("a[data-folder]")) write(link, folders[link.dataset.folder] ?? 0);
  for (const link of document.querySelectorAll(".tree a[data-all]")) write(link, total);
  for (const link of document.querySelectorAll(".bell")) write(link, notes);
  unseen = false;
  title();
  onNewer(newer);
  if (others.size) act("agree");
}

// One after the other: "unchanged" is true of the answer before, which must be shown by then.
export function refresh() {
  return (waiting ??= asking.then(() => {
    waiting = null;
    const answer = fetched();
    asking = answer.catch(() => {});
    return answer;
  }));
}

const shown = () => pane().dataset.snapshot;

async function fetched() {
  if (missed) etag = null, (unseen = true);
  missed = false;
  await settle();
  const before = moves;
  const snapshot = shown();
  const url = `/api/counts?snapshot=${encodeURIComponent(snapshot)}`;
  const answer = await get(url, etag);
  // What is marked or moved meanwhile is not in this answer; its own event asks again.
  if (!answer || moves !== before || changing) return;
  // Another list came first, which has its own news.
  if (shown() !== snapshot) return fetched();
  etag = answer.etag;
  await show(answer.data);
}

export function forget() {
  etag = null;
  title();
}

const chip = (data) => (Object.assign(job, data), act("chip"));

// Beside the reader the import is all that is told; its own page listens by itself.
export const follow = () => live.start((kind, data) => kind === "import" && chip(data));

// A thousand readers of one feed do not all ask in the same moment.
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
  // Its title counts too while nobody looks; once a minute is enough for that.
  setInterval(() => (missed || !live.alive()) && refresh(), EVERY);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    // A page that slept has not been told either.
    missed ||= !live.alive();
    refresh();
  });
}
