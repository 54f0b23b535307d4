// Trying the API on its page: a form per operation, created when it is opened. The token stays in its field.
import { bindCopyButtons } from "../copy-text.js";

const place = document.querySelector(".api");
const words = place.dataset;
const token = document.getElementById("api-token");

/** Headers that mean something to a program. */
const TOLD = ["Content-Type", "Location", "Link", "ETag", "Idempotency-Replayed", "Retry-After", "RateLimit", "RateLimit-Policy", "WWW-Authenticate"];

function made(tag, props, ...inner) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...inner);
  return node;
}

function field(id, label, input) {
  return made("div", {}, made("label", { htmlFor: id, textContent: label }), Object.assign(input, { id, className: "input", spellcheck: false }));
}

function inputs(op) {
  return [...op.querySelectorAll("tr[data-name]")].map((row) => {
    const { name, in: where, example } = row.dataset;
    const input = made("input", { type: "text", autocomplete: "off", value: where === "path" ? example : "" });
    return { name, where, input, node: field(`${op.id}-${name}`, name, input) };
  });
}

function request(op, fields, body) {
  const headers = { Authorization: `Bearer ${token.value.trim()}` };
  const query = new URLSearchParams();
  let path = op.dataset.path;
  for (const { name, where, input } of fields) {
    if (where === "path") path = path.replace(`{${name}}`, encodeURIComponent(input.value));
    else if (input.value && where === "query") query.set(name, input.value);
    else if (input.value) headers[name] = input.value;
  }
  if (body) headers["Content-Type"] = "application/json";
  const url = `/api/v1${path}${query.size ? `?${query}` : ""}`;
  // Without cookies, so that the answer is the one a program would get.
  return fetch(url, { method: op.dataset.method, headers, body: body?.value, credentials: "omit", cache: "no-store" });
}

async function shown(response) {
  const text = await response.text();
  const lines = TOLD.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`);
  let body = text;
  try {
    body = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Not JSON: show it unchanged.
  }
  return [`${response.status} ${response.statusText}`, ...lines, "", body].join("\n");
}

function build(op) {
  const fields = inputs(op);
  const example = op.querySelector("[data-body]");
  const body = example ? made("textarea", { value: example.textContent }) : null;
  const answer = made("pre", { className: "code", tabIndex: 0, hidden: true });
  answer.setAttribute("aria-label", words.answer);
  const status = made("p", { className: "small" });
  status.setAttribute("role", "status");
  const send = made("button", { type: "submit", className: "btn primary", textContent: words.send });
  const form = made("form", {}, ...fields.map((each) => each.node), ...(body ? [field(`${op.id}-body`, words.body, body)] : []), send, status, answer);
  form.setAttribute("aria-label", `${words.try}: ${op.id}`);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!token.value.trim()) {
      status.textContent = words.noToken;
      token.focus();
      return;
    }
    send.disabled = true;
    try {
      answer.textContent = await shown(await request(op, fields, body));
      answer.hidden = false;
      status.textContent = answer.textContent.split("\n", 1)[0];
    } catch {
      status.textContent = words.failed;
    }
    send.disabled = false;
  });
  op.append(form);
}

for (const op of document.querySelectorAll(".op")) op.addEventListener("toggle", () => op.querySelector("form") || build(op));

/** Opens what the address names. */
function goal() {
  const found = document.getElementById(location.hash.slice(1));
  if (found?.matches("details")) found.open = true;
}

document.querySelector(".api-token").hidden = false;
addEventListener("hashchange", goal);
goal();

bindCopyButtons();
