// Changes of state: sent in batches, kept while the server is away, and over a reload. Sending one twice
// is the same as once.
import { post } from "./net.js";
import { toast } from "./toast.js";
import { t, tn } from "./words.js";

const BATCH = 500;
// Ids in one request.
const MOST = 500;
const AGAIN = [2000, 60000];
const KINDS = { read: ["/entries/mark", "read", MOST], star: ["/entries/star", "on", 1] };
// "read 12" → true.
export const waiting = new Map();
// Keys that the server is asked about just now; what is set here meanwhile is newer than its answer.
export const asked = new Set();
let prefix = "";
let timer = 0;
let failures = 0;
// What the server says of a session that has ended, or of a page from before the one that began since.
let ended = "";
let sending = Promise.resolve();
let refused = () => {};

// A browser may refuse to keep anything; then a change lives as long as its page.
function keep(key, value) {
  try {
    if (value === undefined) localStorage.removeItem(prefix + key);
    else localStorage.setItem(prefix + key, value ? "1" : "");
  } catch {}
}

export function put(kind, id, value) {
  const key = `${kind} ${id}`;
  asked.delete(key);
  waiting.set(key, value);
  keep(key, value);
  later(BATCH);
}

function later(pause) {
  clearTimeout(timer);
  timer = setTimeout(send, pause);
}

// One batch after the other: two answers in the wrong order would leave the older mark standing.
export function send() {
  clearTimeout(timer);
  sending = sending.then(() => flush(false));
  return sending;
}

// Before counts are asked for. A session that has ended is not asked again and again.
export const settle = async () => ended || send();

async function flush(keepalive) {
  for (const [kind, [, , most]] of Object.entries(KINDS)) {
    for (const value of [true, false]) {
      const keys = [...waiting.keys()].filter((key) => key.startsWith(kind) && waiting.get(key) === value);
      for (let at = 0; at < keys.length; at += most) {
        if (!(await deliver(kind, keys.slice(at, at + most), value, keepalive))) return away();
      }
    }
  }
  failures = 0;
  show();
}

// False: to be tried again.
async function deliver(kind, keys, value, keepalive) {
  const [url, name] = KINDS[kind];
  const ids = keys.map((key) => key.split(" ")[1]);
  const failure = await post(url, { entry: ids, [name]: value ? 1 : 0 }, keepalive).then(() => null, (one) => one);
  const status = failure?.status ?? 200;
  const before = ended;
  ended = status === 401 || failure?.word === "old_page" ? failure.message : "";
  if (ended && ended !== before) toast(ended);
  if (!status || ended || status === 429 || status >= 500) return false;
  for (const [n, key] of keys.entries()) {
    // Changed meanwhile: that is still to be sent.
    if (waiting.get(key) !== value) continue;
    waiting.delete(key);
    keep(key);
    if (failure) refused(kind, ids[n], !value);
  }
  if (failure) toast(t("Couldn't save your change. {reason}", { reason: failure.message }));
  return true;
}

// Whoever logs in, or loads the page anew, goes on: no time of waiting helps there.
function away() {
  if (!ended) later(Math.min(AGAIN[0] * 2 ** failures++, AGAIN[1]));
  show();
}

function show() {
  const note = document.getElementById("pending");
  const n = (failures || ended) && waiting.size;
  note.hidden = !n;
  note.textContent = !n ? "" : ended ? tn("{n} change not saved yet. {reason}", "{n} changes not saved yet. {reason}", n, { reason: ended }) : tn("Offline: {n} change not saved yet", "Offline: {n} changes not saved yet", n);
}

// What was left over by an earlier page; a person's changes are never sent for another one.
function load() {
  prefix = `eventr.waiting.${document.querySelector(".reader").dataset.user}.`;
  try {
    for (const key of Object.keys(localStorage).filter((one) => one.startsWith(prefix))) {
      waiting.set(key.slice(prefix.length), localStorage.getItem(key) === "1");
    }
  } catch {}
}

export function start(back) {
  refused = back;
  load();
  for (const [key, value] of waiting) refused(...key.split(" "), value);
  if (waiting.size) send();
  addEventListener("online", send);
  document.addEventListener("visibilitychange", () => document.hidden || send());
  addEventListener("pagehide", () => flush(true));
}
