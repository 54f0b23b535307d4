// Talking to the server: small posts that answer in JSON, fragments that htmx puts into the page.
import { toast } from "./toast.js";
import { csrf } from "./trusted.js";
import { t } from "./words.js";

const PATIENCE = 30000;

export class Failure extends Error {
  constructor(status, message, word) {
    super(message);
    Object.assign(this, { status, word });
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
  if (!response.ok) throw new Failure(response.status, answer.message ?? offline(), answer.error);
  return answer;
}

export async function get(url, etag) {
  const headers = { Accept: "application/json", ...(etag ? { "If-None-Match": etag } : {}) };
  const signal = AbortSignal.timeout(PATIENCE);
  const response = await fetch(url, { headers, cache: "no-store", signal }).catch(() => null);
  const data = response?.ok ? await response.json().catch(() => null) : null;
  return data && { etag: response.headers.get("ETag"), data };
}

// A newer load of the same place ends an older one that is still under way, which then answers null;
// false: the server did not answer, which is said; undefined: it refused.
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

// What else does not come is said too: forms, and parts of a page. Not of what asks by itself, or says it itself.
document.addEventListener("htmx:error", ({ target }) => target.matches?.("#waiting, #more") || toast(offline()));

// What is under way to a place is not wanted any more.
export function drop(id) {
  const place = document.getElementById(id);
  loading.delete(id);
  place.removeAttribute("aria-busy");
  htmx.trigger(place, "htmx:abort");
}
