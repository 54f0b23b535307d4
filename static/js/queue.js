// Changes of state: sent in batches, kept while the server is down and across reloads. Sending one twice is
// harmless.
import { post } from "./net.js";
import { toast } from "./toast.js";
import { t, tn } from "./words.js";

const BATCH = 500;
const AGAIN = [2000, 60000];
// Address, name of the value, and the most ids in one request.
const KINDS = { read: ["/entries/mark", "read", 500], star: ["/entries/star", "on", 1] };
// "read 12" → true.
export const waiting = new Map();
// Keys in a pending request for states; changes made here meanwhile are newer than its answer.
export const asked = new Set();
let prefix = "";
let timer = 0;
let failures = 0;
// The server's message about an ended session, or about a page older than the current session.
let ended = "";
// The server's message while it moves the account, and the seconds until it's worth trying again.
let moving = "";
let pause = 0;
let sending = Promise.resolve();
// Key → the value on its way.
const flying = new Map();
let refused = () => {};

// If the browser refuses to store it, a change lives as long as its page.
function keep(key, value) {
  try {
    if (value === undefined) delete localStorage[prefix + key];
    else localStorage[prefix + key] = value ? "1" : "";
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

// One batch at a time: two answers in the wrong order would leave the older mark.
export function send() {
  clearTimeout(timer);
  return (sending = sending.then(() => flush()));
}

// Before counts are requested. If the session has ended, don't retry.
export const settle = async () => ended || send();

// A page that is left waits for no answer. What is newer than its mark on the way is left to the next page.
async function flush(keepalive) {
  for (const [kind, [, , most]] of Object.entries(KINDS)) {
    for (const value of [true, false]) {
      const keys = [...waiting.keys()].filter((key) => key.startsWith(kind) && waiting.get(key) === value && flying.get(key) !== !value);
      while (keys.length) {
        const sent = deliver(kind, keys.splice(0, most), value, keepalive);
        if (!keepalive && !(await sent)) return away();
      }
    }
  }
  if (keepalive) return;
  failures = 0;
  show();
}

// Returns false to retry later.
async function deliver(kind, keys, value, keepalive) {
  const [url, name] = KINDS[kind];
  for (const key of keys) flying.set(key, value);
  const failure = await post(url, { entry: keys.map((key) => key.split(" ")[1]), [name]: value ? 1 : 0 }, keepalive).then(() => null, (one) => one);
  for (const key of keys) flying.delete(key);
  const { status = 200, word, message, seconds } = failure ?? {};
  const before = ended;
  ended = status === 401 || word === "old_page" ? message : "";
  if (ended && ended !== before) toast(ended);
  moving = word === "moving" ? message : "";
  pause = moving && seconds * 1000;
  if (!status || ended || status === 429 || status >= 500) return false;
  for (const key of keys) {
    // Changed meanwhile: the new value still has to be sent.
    if (waiting.get(key) !== value) continue;
    waiting.delete(key);
    keep(key);
    if (failure) refused(...key.split(" "), !value);
  }
  if (failure) toast(t("Couldn't save your change. {reason}", { reason: message }));
  return true;
}

// After the session has ended, only a new login or a reload helps; don't retry.
function away() {
  if (!ended) later(pause || Math.min(AGAIN[0] * 2 ** failures++, AGAIN[1]));
  show();
}

function show() {
  const note = document.getElementById("pending");
  if (!note) return;
  const reason = ended || moving;
  const n = (failures || reason) && waiting.size;
  note.hidden = !n;
  note.textContent = reason ? tn("{n} change not saved yet. {reason}", "{n} changes not saved yet. {reason}", n, { reason }) : tn("Offline: {n} change not saved yet", "Offline: {n} changes not saved yet", n);
}

// Loads changes left by an earlier page; one user's changes are never sent for another.
function load() {
  prefix = `eventr.waiting.${document.querySelector(".reader").dataset.user}.`;
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(prefix)) waiting.set(key.slice(prefix.length), localStorage[key] === "1");
    }
  } catch {}
}

export function start(back) {
  refused = back;
  load();
  for (const [key, value] of waiting) refused(...key.split(" "), value);
  send();
  addEventListener("online", send);
  document.addEventListener("visibilitychange", () => document.hidden || send());
  addEventListener("pagehide", () => flush(true));
}
