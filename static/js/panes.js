// The current stream and entry, with their addresses and history: "back" restores everything.
import * as counts from "./counts.js";
import * as list from "./list.js";
import { drop, load } from "./net.js";
import * as queue from "./queue.js";
import * as rows from "./rows.js";
import { say } from "./toast.js";
import { links, revealCurrent } from "./treeview.js";
import { t } from "./words.js";

export const reader = () => document.querySelector(".reader");
const article = () => document.getElementById("article");
export const stream = () => list.pane().dataset.url;
export const view = () => list.pane().dataset.view;
const narrow = matchMedia("(max-width: 699px)");
// Whether an entry covers its list.
const over = () => narrow.matches || view() !== "panes" || reader().classList.contains("full");

function pane(name) {
  reader().dataset.pane = name;
}

function remember(extra = {}) {
  const box = document.getElementById("rows");
  const place = { snapshot: box?.dataset.snapshot, rows: list.all().length, selected: rows.current()?.dataset.id };
  history.replaceState({ ...history.state, ...place, scroll: list.pane()?.scrollTop ?? 0, ...extra }, "");
}

function address(id) {
  const url = new URL(stream(), location.origin);
  if (id) url.searchParams.set("entry", id);
  return url.pathname + url.search;
}

function entitle() {
  const parts = [openId() && document.getElementById("entry-title")?.textContent, document.querySelector(".pane-list h1").textContent];
  document.title = [...parts.map((part) => part?.trim()).filter(Boolean), "Eventr"].join(" · ");
  counts.forget();
}

export const openId = () => new URL(location.href).searchParams.get("entry");

// The entry that shortcuts apply to: the selected one, or the open one if it covers the list.
export const chosen = () => (openId() && over() ? null : rows.current()?.dataset.id) ?? openId();
export const isOpen = () => chosen() === openId();

// Pending content of a pane: a promise of true, of null if another replaces it, else of a falsy value.
const coming = {};

function track(place, promise) {
  const mine = promise.finally(() => coming[place] === mine && (coming[place] = null));
  return (coming[place] = mine);
}

const arrived = (place) => coming[place]?.then((came) => came ?? arrived(place));

// Shortcuts apply to the content that was requested before they were pressed.
export const when = (place, action) => function act(...what) {
  return coming[place] ? void arrived(place).then((came) => came && act(...what)) : action(...what);
};
export const whenOpen = (action) => when("stream", when("article", action));

// Returns whether the user has stayed on this list since it was loaded.
export const stays = (box) => !coming.stream && box === document.getElementById("rows");

export const open = (...what) => track("article", show(...what));

// Runs an action on the entry's text: opens the entry unless the list contains the text.
export function inText(action) {
  const row = rows.current();
  if (isOpen()) action(article());
  else if (row.querySelector(".text-whole")) action(row);
  else open(row).then((came) => came && action(article()));
}

// The entry whose actions are on the page with their forms: the open one, or a row with its whole text.
export const shown = () => document.getElementById("share")?.closest("[data-entry]");

// Gives a row with its whole text all actions of an open article. Another row that had them stays as it is.
export async function equip(place) {
  const before = shown();
  if (!(await load(`/entries/${place.dataset.entry}/share`, place.id)) || !place.querySelector("#share")) return;
  if (before && before !== place) retire(before);
}

function retire(place) {
  if (place.closest("#article")) return;
  // Labels still name their fields.
  for (const one of place.querySelectorAll("[id]")) {
    const id = `${one.id}-${place.dataset.entry}`;
    for (const name of ["for", "list", "aria-describedby", "aria-labelledby"]) place.querySelector(`[${name}="${one.id}"]`)?.setAttribute(name, id);
    one.id = id;
  }
}

// Returns the chosen entry with its actions; opens it unless its whole text is in the list.
export async function ready() {
  const id = chosen();
  if (!id) return say(t("Select an entry first")), null;
  const row = shown()?.dataset.entry !== id && list.byId(id);
  if (row) await (!openId() && row.querySelector(".acts") ? equip(row.querySelector(".acts")) : open(row));
  return shown()?.dataset.entry === id ? shown() : null;
}

async function show(row, { push = true, pointed = false } = {}) {
  const id = row.dataset.id;
  rows.select(row, "nearest", pointed);
  rows.setRead(row, true);
  if (giveUp()) history.replaceState({}, "", address(id));
  else if (push) {
    remember();
    const step = openId() ? "replaceState" : "pushState";
    history[step]({ opened: openId() ? history.state?.opened : true }, "", address(id));
  }
  pane("article");
  remember();
  if (shown()) retire(shown());
  const link = row.querySelector("a");
  if (document.activeElement.closest(".row")) link.focus({ preventScroll: true });
  else if (!over()) say(link.textContent.trim());
  const came = await load(address(id), "article");
  if (came === null) return came;
  if (came === false) again(row);
  arrive();
  if (over()) document.getElementById("entry-title")?.focus({ preventScroll: true });
  return came;
}

function arrive() {
  article().scrollTop = 0;
  fetchScripts();
  rows.sync(openId());
  // Asks for a full text that hasn't come yet.
  article().querySelector(".now")?.requestSubmit();
  entitle();
  return true;
}

// Replaces the text of the open entry.
export const swap = (url) => track("article", load(url, "article").then((came) => came && arrive()));

// Replaces an entry that failed to load: the text of another entry must never stay.
function again(row) {
  const box = document.createElement("div");
  const words = document.createElement("p");
  const button = document.createElement("button");
  box.className = "empty";
  words.textContent = t("Couldn't load this entry.");
  Object.assign(button, { type: "button", className: "btn", textContent: t("Retry") });
  button.addEventListener("click", () => open(row, { push: false }));
  box.append(words, button);
  article().replaceChildren(box);
}

// Moves to a row and opens it, unless its whole text is in the list.
export function visit(row) {
  if (openId() || view() !== "expanded") return open(row);
  list.still();
  rows.select(row, "start");
  rows.setRead(row, true);
  row.querySelector("a").focus({ preventScroll: true });
}

export function close({ push = true } = {}) {
  if (!openId() && reader().dataset.pane !== "article") return;
  if (push && !giveUp() && history.state?.opened) return history.back();
  if (push) history.replaceState({}, "", address());
  pane("list");
  const row = rows.current();
  if (row) list.reveal(row);
  list.fill();
  if (over() || !push) row?.querySelector("a").focus({ preventScroll: true });
  if (!narrow.matches) load("/read/nothing", "article");
  entitle();
}

// Returns the address of the list without its open entry.
function listOf(href) {
  const url = new URL(href, location.origin);
  url.searchParams.delete("entry");
  return url.pathname + url.search;
}

// Someone who continues in the current list doesn't want the pending one.
function giveUp() {
  if (!coming.stream) return false;
  coming.stream = null;
  drop("stream");
  mark();
  return listOf(location.href) !== stream();
}

export function go(...where) {
  if (!reader()) return location.assign(where[0]);
  document.getElementById("stream").setAttribute("aria-busy", "true");
  const mine = track("stream", queue.send().then(() => coming.stream === mine ? bring(...where) : null));
  return mine;
}

async function bring(url, { push = true, state = null } = {}) {
  const before = push || listOf(location.href) === stream() ? location.href : stream();
  if (push) {
    remember();
    history.pushState({}, "", url);
  }
  const target = new URL(url, location.origin);
  const entry = target.searchParams.get("entry");
  const asked = new URL(target);
  if (state?.snapshot) asked.searchParams.set("snapshot", state.snapshot);
  if (state?.rows) asked.searchParams.set("rows", Math.min(state.rows, 1000));
  mark(target.pathname);
  list.still();
  const came = await load(asked.pathname + asked.search, "stream");
  if (!came) return came === false ? stay(before) : came;
  coming.article = null;
  pane(entry ? "article" : "list");
  fetchScripts();
  mark(target.pathname);
  for (const link of links(".stay")) link.classList.remove("stay");
  while (state?.rows > list.all().length && (await list.more()));
  rows.again();
  list.pane().scrollTop = state?.scroll ?? 0;
  const row = list.byId(entry ?? state?.selected);
  if (row) place(row, state);
  entitle();
  remember();
  list.fill();
  return true;
}

// The list failed to load, so keep the current list and its address.
function stay(url) {
  history.replaceState({}, "", url);
  mark();
}

// If the server rejects a list, reload to show its error page.
function refused(event) {
  if (event.target.id !== "stream" || event.detail.ctx.response.status < 400) return;
  event.preventDefault();
  location.reload();
}

function place(row, state) {
  if (state?.scroll === undefined) rows.select(row, "center");
  else row.setAttribute("aria-current", "true");
  // The heading had the focus while no row was selected.
  if (document.activeElement.matches("#stream h1")) row.querySelector("a").focus({ preventScroll: true });
}

let marked = location.pathname;

const here = (link, yes) => (yes ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"));

export function mark(path = new URL(stream(), location.origin).pathname) {
  for (const link of links("a[data-stream]")) here(link, new URL(link.href, location).pathname === path);
  for (const tab of document.querySelectorAll(".tabs a")) here(tab, path.match(tab.dataset.at));
  if (path !== marked) revealCurrent();
  marked = path;
}

async function restore(event) {
  // The browser has gone to a footnote; its id contains that of its entry.
  if (document.getElementById(decodeURI(location.hash.slice(1)))) return;
  const entry = openId();
  if (listOf(location.href) !== stream()) return go(location.href, { push: false, state: event.state });
  giveUp();
  const row = entry && list.byId(entry);
  if (row) await open(row, { push: false });
  else if (entry) await go(location.href, { push: false, state: event.state });
  else close({ push: false });
}

// In dark themes, pictures have a light ground, but not before they cover it.
const light = (image) => image.matches(".prose img") && image.classList.add("lit");

function loaded({ target }) {
  fetchScript(target);
  light(target);
}

// Loads on demand the scripts of a view, of a waiting list or picture, and of the borders between panes.
const fetchScript = (place) => place?.dataset.script && import(place.dataset.script);
const fetchScripts = () => document.querySelectorAll("[data-script]:not(.split)").forEach(fetchScript);

export function start() {
  document.addEventListener("load", loaded, true);
  for (const kind of ["pointerover", "focusin"]) addEventListener(kind, ({ target }) => fetchScript(target.closest?.(".split")));
  if (localStorage.getItem("eventr.panes")) fetchScript(document.querySelector(".split"));
  fetchScripts();
  for (const image of document.images) if (image.complete && image.naturalWidth) light(image);
  addEventListener("popstate", restore);
  document.addEventListener("htmx:after:request", refused);
  addEventListener("pagehide", () => remember());
  const [entry] = performance.getEntriesByType("navigation");
  const id = openId();
  // Back from another site: restore the same rows in the same order at the same position.
  if (entry?.type === "back_forward" && history.state?.snapshot) {
    go(location.href, { push: false, state: history.state });
  } else if (id) {
    rows.select(list.byId(id));
    if (article().querySelector('form[data-act="read"] [aria-pressed="true"]')) rows.setAny(id, true);
  }
}
