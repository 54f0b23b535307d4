// Requests to the server: small posts with JSON answers, and fragments that htmx inserts into the page.
import { toast } from "./toast.js";
import { csrf } from "./trusted.js";
import { t } from "./words.js";

const PATIENCE = 30000;

export class Failure extends Error {
  constructor(status, message, word, seconds) {
    super(message);
    Object.assign(this, { status, word, seconds });
  }
}

export const offline = () => t("Can't reach the server. Check your connection.");

export async function post(url, fields, keepalive = false) {
  const body = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) for (const one of [value].flat()) body.append(name, one);
  const headers = { "X-CSRF-Token": csrf(), Accept: "application/json" };
  const signal = AbortSignal.timeout(PATIENCE);
  const response = await fetch(url, { method: "POST", body, headers, keepalive, signal }).catch(() => null);
  if (!response) throw new Failure(0, offline());
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failure(response.status, answer.message ?? offline(), answer.error, +response.headers.get("Retry-After"));
  return answer;
}

export async function get(url, etag) {
  const headers = { Accept: "application/json", ...(etag ? { "If-None-Match": etag } : {}) };
  const signal = AbortSignal.timeout(PATIENCE);
  const response = await fetch(url, { headers, cache: "no-store", signal }).catch(() => null);
  const data = response?.ok ? await response.json().catch(() => null) : null;
  return data && { etag: response.headers.get("ETag"), data };
}

// A newer request for the same element cancels an older one, which then returns null. false: the server didn't
// answer, and a message is shown; undefined: the server rejected the request.
const loading = new Map();

export async function load(url, id) {
  const turn = Symbol(id);
  loading.set(id, turn);
  const place = document.getElementById(id);
  let came = true;
  const lost = (event) => event.target === place && (event.stopPropagation(), (came = false));
  const refused = ({ target, detail }) => target === place && detail.ctx.response?.status >= 400 && (came = undefined);
  place.setAttribute("aria-busy", "true");
  place.addEventListener("htmx:error", lost);
  place.addEventListener("htmx:after:request", refused);
  await htmx.ajax("GET", url, { target: `#${id}`, source: place });
  place.removeEventListener("htmx:error", lost);
  place.removeEventListener("htmx:after:request", refused);
  if (loading.get(id) !== turn) return null;
  place.removeAttribute("aria-busy");
  if (came === false) toast(offline());
  return came;
}

// Report other failures too: forms and parts of a page, except those that poll or report failures themselves.
document.addEventListener("htmx:error", ({ target }) => target.matches?.("#waiting, #more") || toast(offline()));

// Cancels the pending request for an element.
export function drop(id) {
  const place = document.getElementById(id);
  loading.delete(id);
  place.removeAttribute("aria-busy");
  htmx.trigger(place, "htmx:abort");
}
