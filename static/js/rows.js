// Rows of the list and their states. A row never moves or goes away while the reader is on the page.
import { move } from "./counts.js";
import { post } from "./net.js";
import { toast } from "./toast.js";

const BATCH = 300;
let waiting = new Map();
let timer = 0;
let sending = Promise.resolve();

export const all = () => [...document.querySelectorAll("#rows .row")];
export const current = () => document.querySelector('#rows .row[aria-current="true"]');
export const byId = (id) => document.querySelector(`#rows .row[data-id="${CSS.escape(id)}"]`);
export const isRead = (row) => row.classList.contains("is-read");

function paint(row, read) {
  if (isRead(row) === read) return false;
  row.classList.toggle("is-read", read);
  row.querySelector(".state").textContent = read ? "" : "Unread: ";
  move(row.dataset.feed, read ? -1 : 1);
  pressed("read", row.dataset.id, !read, read ? "Keep unread" : "Mark as read");
  return true;
}

function pressed(act, id, on, label) {
  for (const form of document.querySelectorAll(`form[data-act="${act}"][data-id="${CSS.escape(id)}"]`)) {
    const button = form.querySelector("button");
    button.setAttribute("aria-pressed", on);
    if (label) button.setAttribute("title", label);
  }
}

// An article that was asked for before its mark arrived is shown as the list has it.
export function sync(id) {
  const row = byId(id);
  if (row) pressed("read", id, !isRead(row), isRead(row) ? "Keep unread" : "Mark as read");
}

// Shown at once, sent in batches, taken back with a message when the server refuses.
export function setRead(row, read) {
  if (!row || !paint(row, read)) return false;
  waiting.set(row.dataset.id, read);
  clearTimeout(timer);
  timer = setTimeout(send, BATCH);
  return true;
}

// One batch after the other: two answers in the wrong order would leave the older mark standing.
export function send() {
  clearTimeout(timer);
  sending = sending.then(() => flush(false));
  return sending;
}

async function flush(keepalive) {
  const batch = waiting;
  waiting = new Map();
  for (const read of [true, false]) {
    const ids = [...batch].filter(([, value]) => value === read).map(([id]) => id);
    if (ids.length) await deliver(ids, read, keepalive);
  }
}

async function deliver(ids, read, keepalive) {
  try {
    await post("/entries/mark", { entry: ids, read: read ? 1 : 0 }, keepalive);
  } catch (failure) {
    for (const id of ids) if (byId(id)) paint(byId(id), !read);
    toast(`Not saved. ${failure.message}`);
  }
}

export async function setStar(id, on) {
  pressed("star", id, on);
  try {
    await post("/entries/star", { entry: id, on: on ? 1 : 0 });
    return true;
  } catch (failure) {
    pressed("star", id, !on);
    toast(`Not saved. ${failure.message}`);
    return false;
  }
}

// After a mass action of the server: only shown, nothing to send.
export function paintMany(rows, read) {
  for (const row of rows) {
    row.classList.toggle("is-read", read);
    row.querySelector(".state").textContent = read ? "" : "Unread: ";
    pressed("read", row.dataset.id, !read);
  }
}

export function select(row) {
  const before = current();
  if (before && before !== row) before.removeAttribute("aria-current");
  if (!row) return;
  row.setAttribute("aria-current", "true");
  row.scrollIntoView({ block: "nearest" });
}

export function start() {
  addEventListener("pagehide", () => flush(true));
}
