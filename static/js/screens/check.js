// Runs the proxy self-test; all texts are in the page.
import { bindCopyButtons } from "../copy-text.js";

const PATIENCE = 20000;
const verdict = document.getElementById("verdict");

function show(place, word) {
  for (const part of place.querySelectorAll("[data-when]")) part.hidden = part.dataset.when !== word;
}

async function ask({ method, path, headers, bytes }, more = {}) {
  const size = Number(bytes);
  const url = location.origin + path.replace("{origin}", encodeURIComponent(location.origin));
  return fetch(url, {
    method,
    headers: { Accept: "application/json", ...JSON.parse(headers), ...more },
    body: size ? "x".repeat(size) : undefined,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal: AbortSignal.timeout(PATIENCE),
  });
}

async function passes(probe) {
  try {
    const response = await ask(probe);
    const first = response.status === 200 ? await response.json() : {};
    if (first.ok !== true) return false;
    if ("again" in probe) {
      const tag = response.headers.get("ETag");
      return tag !== null && (await ask(probe, { "If-None-Match": tag })).status === 304;
    }
    return !("twice" in probe) || (await (await ask(probe)).json()).token !== first.token;
  } catch {
    return false;
  }
}

async function run() {
  document.body.classList.add("tried");
  verdict.hidden = false;
  const rows = [...document.querySelectorAll(".probes > li")];
  const failed = [];
  for (const row of rows) {
    const ok = await passes(row.dataset);
    show(row, ok ? "ok" : "bad");
    if (!ok) failed.push(row);
  }
  // First what has to be changed.
  document.querySelector(".probes").prepend(...failed);
  verdict.querySelector("b").textContent = failed.length.toLocaleString(document.documentElement.lang);
  verdict.classList.toggle("error", failed.length > 0);
  show(verdict, failed.length ? "bad" : "ok");
}

run();

bindCopyButtons();
