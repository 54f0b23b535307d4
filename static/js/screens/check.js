// Tries out what a proxy lets through; all words are in the page.
const PATIENCE = 20000;
const verdict = document.getElementById("verdict");

function show(place, word) {
  for (const part of place.querySelectorAll("[data-when]")) part.hidden = part.dataset.when !== word;
}

async function ask({ method, path, headers, bytes, status }) {
  const size = Number(bytes);
  const url = location.origin + path.replace("{origin}", encodeURIComponent(location.origin));
  const response = await fetch(url, {
    method,
    headers: { Accept: "application/json", ...JSON.parse(headers) },
    body: size ? "x".repeat(size) : undefined,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal: AbortSignal.timeout(PATIENCE),
  });
  if (response.status !== Number(status)) return null;
  if (response.status === 304) return {};
  const answer = await response.json();
  return answer.ok ? answer : null;
}

async function passes(probe) {
  try {
    const first = await ask(probe);
    if (!first || probe.twice === undefined) return first !== null;
    const second = await ask(probe);
    return second !== null && second.token !== first.token;
  } catch {
    return false;
  }
}

async function run() {
  document.body.classList.add("tried");
  verdict.hidden = false;
  const rows = [...document.querySelectorAll(".probes > li")];
  const found = [];
  for (const row of rows) {
    const ok = await passes(row.dataset);
    show(row, ok ? "ok" : "bad");
    found.push(ok);
  }
  show(verdict, found.every(Boolean) ? "ok" : "bad");
}

run();
