// Forms that save each change at once. A save names what was changed since the last one that the server confirmed,
// and its turn: if it comes after a later one of the same page, the server leaves it out. What waits when the page is
// left is sent then. What was refused is put back, or marked if it was typed; what didn't get through stays, and can
// be tried again.
import { offline } from "./net.js";
import { csrf } from "./trusted.js";
import { t } from "./words.js";

const page = Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("");
let turn = 0;

const isChoice = (one) => one.matches("[type=checkbox], [type=radio], select");
const value = (one) => (one.matches("select") ? one.value : one.checked);
const choices = (form) => new Map([...form.elements].filter(isChoice).map((one) => [one, value(one)]));
const mayPass = (status) => !status || [401, 403, 429].includes(status) || status >= 500;

// Name → its values as one text; a name whose switches are all off has none.
function read(form) {
  const data = new FormData(form);
  const names = [...form.elements].map(({ name }) => name).filter((name) => name && name !== "csrf_token");
  return new Map(names.map((name) => [name, JSON.stringify(data.getAll(name))]));
}

const differ = (one, other) => [...one].filter(([name, now]) => now !== other.get(name)).map(([name]) => name);

export function watch(form, changed = () => {}) {
  const place = form.querySelector("#saved");
  let kept = choices(form);
  let saved = read(form);
  let done = 0; // the turn of what is saved
  let flying = null; // what was sent when the page was left, and isn't answered
  let failed = false;
  let left = false;
  let renewed = false;
  const sent = new WeakMap();

  // Completes a request, and returns what it holds.
  function complete(body, out = []) {
    const values = read(form);
    for (const name of out) body.delete(name);
    body.set("changed", differ(values, saved).filter((name) => !out.includes(name)).join(" "));
    body.set("page", page);
    body.set("turn", (turn += 1));
    for (const name of out) values.delete(name);
    return { turn, values, choices: choices(form) };
  }

  // A refused text isn't tried again with other changes.
  const refused = () => [...form.querySelectorAll("[aria-invalid=true]")].filter((one) => one !== document.activeElement).map(({ name }) => name);

  // `later`: names that were changed after it was sent.
  function accept(held, later) {
    if (held.turn < done) return;
    done = held.turn;
    kept = held.choices;
    failed = renewed = false;
    saved = new Map([...saved, ...held.values]);
    // What the server changed in the form is saved, too.
    for (const [name, now] of read(form)) if (held.values.has(name) ? !later.includes(name) : !saved.has(name)) saved.set(name, now);
  }

  function fail(message) {
    failed = true;
    if (message) {
      place.replaceChildren(document.createElement("span"));
      place.firstChild.className = "bad";
      place.firstChild.textContent = message;
    }
    const again = document.createElement("button");
    again.className = "link-btn";
    again.textContent = t("Try again");
    place.firstElementChild?.append(" ", again);
  }

  // After a new login, the page has the token of the session before. It takes the new one if the person is the same.
  async function renew() {
    const response = await fetch(location.pathname, { headers: { Accept: "text/html" }, cache: "no-store" }).catch(() => null);
    const text = response?.ok ? await response.text() : "";
    const token = /name="csrf-token" content="([^"]+)"/.exec(text)?.[1];
    if (!token || !text.includes(`data-user="${place.dataset.user}"`)) return false;
    for (const one of document.querySelectorAll("[name=csrf_token]")) one.value = token;
    document.querySelector('meta[name="csrf-token"]').content = token;
    return true;
  }

  const submit = () => htmx.trigger(form, "submit");

  // What is on its way is sent again, because it may end with the page.
  // A folder whose name is being typed is left for later where the page may come back.
  function leave(whole) {
    const out = refused();
    if (!whole) for (const one of form.querySelectorAll("[data-apart]:focus")) out.push(one.name);
    const values = read(form);
    if (!differ(values, saved).some((name) => !out.includes(name)) || JSON.stringify([...values]) === flying) return;
    left = true;
    flying = JSON.stringify([...values]);
    const body = new URLSearchParams(new FormData(form));
    const held = complete(body, out);
    const headers = { "X-CSRF-Token": csrf(), "HX-Request": "true", "HX-Target": "p#saved", Accept: "text/html" };
    fetch(form.action, { method: "POST", body, headers, keepalive: true }).then(
      ({ ok }) => (ok ? accept(held, differ(read(form), held.values)) : (flying = null)),
      () => (flying = null),
    );
  }

  // Who comes back sees what was saved, or why it wasn't.
  function back() {
    if (left) submit();
    left = false;
  }

  form.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    sent.set(ctx, complete(ctx.request.body, refused()));
    ctx.request.keepalive = true;
  });
  form.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
    sent.get(ctx).later = differ(read(form), sent.get(ctx).values);
    flying = null;
  });
  form.addEventListener("htmx:error", (event) => {
    event.stopPropagation();
    flying = null;
    fail(offline());
  });
  form.addEventListener("htmx:after:swap", async ({ detail: { ctx } }) => {
    const held = sent.get(ctx);
    if (ctx.response.status < 400) {
      // Later typing stays.
      for (const one of form.querySelectorAll("[data-apart]")) if (!held.later.includes(one.name)) one.value = "";
      return accept(held, held.later);
    }
    const wrong = form.elements[form.querySelector("#saved [data-field]")?.dataset.field];
    if (wrong?.matches?.(".input:not(select)")) return wrong.setAttribute("aria-invalid", "true");
    if (mayPass(ctx.response.status)) {
      // A proxy's page says nothing to the reader.
      fail(place.querySelector(":scope > [data-word]") ? "" : offline());
      const once = !renewed && place.querySelector("[data-word=old_page]");
      renewed = once && (await renew());
      if (renewed) submit();
      return;
    }
    for (const [one, state] of choices(form)) {
      // What was changed since then is sent next.
      if (state === held.choices.get(one)) one[one.matches("select") ? "value" : "checked"] = kept.get(one) ?? one.defaultChecked;
    }
    changed();
  });
  form.addEventListener("input", ({ target }) => {
    target.removeAttribute("aria-invalid");
    if (!failed) place.replaceChildren();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? leave(false) : back()));
  addEventListener("pagehide", () => leave(true));
  addEventListener("pageshow", ({ persisted }) => persisted && back());
  addEventListener("online", () => failed && submit());
  addEventListener("beforeunload", (event) => failed && differ(read(form), saved).length && event.preventDefault());
}

// Lists that are fetched again after each change, one after the other: what waits for its turn when the page is left
// is sent then, without the signal that ends with the page.
export function watchList(list) {
  const waiting = new Set();
  list.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    ctx.request.keepalive = true;
    waiting.add(ctx);
  });
  for (const end of ["before:request", "finally:request"]) list.addEventListener(`htmx:${end}`, ({ detail: { ctx } }) => waiting.delete(ctx));
  addEventListener("pagehide", () => {
    for (const { request } of waiting) fetch(request.action, { ...request, signal: null }).catch(() => {});
    waiting.clear();
  });
}
