// Events from the server: one stream per browser; the tab that holds it passes events on to the others. Without it
// (no controller, no secure context) nothing is lost: counts are requested once a minute.
import { post } from "./net.js";

const NAME = "eventr-live";
// Longer than two beats.
const SILENT = 60000;
// The page itself loads first.
const FIRST = 1000;
const AGAIN = [4000, 60000];
// Time of the last sign of life, of this tab's stream or another's.
let heard = 0;
// Id of the last event.
let after = "";
let channel = null;
let source = null;
let release = null;
let timer = 0;
let failures = 0;
let tell = () => {};

// Returns whether events arrive at the moment.
export const alive = () => Date.now() - heard < SILENT;

function take({ kind, data }) {
  heard = Date.now();
  if (kind !== "beat") tell(kind, data);
}

function pass(kind, event) {
  after = event.lastEventId || after;
  const word = { kind, data: event.data ? JSON.parse(event.data) : {} };
  channel.postMessage(word);
  take(word);
}

function stop() {
  clearTimeout(timer);
  source?.close();
  source = null;
}

function later() {
  stop();
  heard = 0;
  const wait = Math.min(AGAIN[0] * 2 ** failures++, AGAIN[1]);
  timer = setTimeout(open, wait * (0.5 + Math.random()));
}

// The first connection starts with the current state; a later one resumes after the last event, and the server
// sends "reset" if it can't.
async function open() {
  const answer = await post("/api/live", {}).catch((failure) => failure);
  if (!release) return;
  if (!answer.url) return answer.status === 401 ? stop() : later();
  source = new EventSource(answer.url + (after ? `&after=${encodeURIComponent(after)}` : ""));
  for (const kind of ["counts", "new", "import", "reset", "beat"]) source.addEventListener(kind, (event) => pass(kind, event));
  source.addEventListener("open", () => {
    failures = 0;
    pass(after ? "beat" : "reset", {});
    watch();
  });
  // The browser's own reconnect would use an expired pass.
  source.addEventListener("error", (event) => event.target === source && later());
}

function watch() {
  clearTimeout(timer);
  timer = setTimeout(() => (alive() ? watch() : later()), SILENT);
}

// Held as long as this tab lives: when it closes, another tab takes over.
function lead() {
  return new Promise((resolve) => {
    release = resolve;
    timer = setTimeout(open, FIRST);
  });
}

function join() {
  channel = new BroadcastChannel(NAME);
  channel.addEventListener("message", (event) => take(event.data));
  const leaving = new AbortController();
  navigator.locks.request(NAME, { signal: leaving.signal }, lead).catch(() => {});
  addEventListener("pagehide", () => leave(leaving), { once: true });
}

function leave(leaving) {
  stop();
  heard = 0;
  leaving.abort();
  release?.();
  release = null;
  channel.close();
}

export function start(told) {
  tell = told;
  if (!navigator.locks || !globalThis.BroadcastChannel) return;
  join();
  addEventListener("pageshow", (event) => event.persisted && (join(), tell("reset", {})));
}
