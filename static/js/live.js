// What happens elsewhere: one stream of events per browser, whoever of its tabs holds it tells the others.
// Without it (no controller, no secure context) nothing is lost: counts are asked for once a minute.
import { post } from "./net.js";

const NAME = "eventr-live";
// Longer than two beats.
const SILENT = 60000;
// The page itself comes first.
const FIRST = 1000;
const AGAIN = [4000, 60000];
// Last sign of life, of this tab's stream or another's.
let heard = 0;
// Id of the last event.
let after = "";
let channel = null;
let source = null;
let release = null;
let timer = 0;
let failures = 0;
let tell = () => {};

// Whether counts come by themselves at the moment.
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

// The first opening shows what is; a later one goes on after the last event, and the server says "reset"
// when it cannot.
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
  // Not the browser's own way back: its pass has run out by then.
  source.addEventListener("error", (event) => event.target === source && later());
}

function watch() {
  clearTimeout(timer);
  timer = setTimeout(() => (alive() ? watch() : later()), SILENT);
}

// Held as long as this tab lives: its end lets another one lead.
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
