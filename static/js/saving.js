// Forms that save each change at once. A save names what was changed since the last one that the server confirmed,
// and its turn: if it comes after a later one of the same page, the server leaves it out. What waits when the page is
// left is sent then. What was refused is put back, or marked if it was typed; what didn't get through stays, and can
// be tried again.
import { offline } from "./net.js";
import { csrf } from "./trusted.js";
import { t } from "./words.js";

// What a change that wasn't saved stands in, and where its words go.
const ROW = ".onoff, .one-of, .field, fieldset";

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

export function watch(form, restored = () => {}) {
  const place = form.querySelector("#saved");
  let kept = choices(form);
  let saved = read(form);
  let done = 0; // the turn of what is saved
  let flying = ""; // what was sent when the page was left, and isn't answered
  let failed = false;
  let left = false;
  let renewed = false;
  const pending = new Set(); // what was sent, and may be written or not
  const sent = new WeakMap();

  // A change that is taken back while it is on its way is a change, too.
  const before = () => [saved, ...[...pending].map((held) => held.values)];
  const isChanged = (name, now) => now !== saved.get(name) || before().some((one) => one.has(name) && one.get(name) !== now);
  const changed = (values) => [...values].filter(([name, now]) => isChanged(name, now)).map(([name]) => name);

  // Completes a request that leaves these names out, and returns what it holds.
  function complete(body, out) {
    const values = read(form);
    for (const name of out) for (const map of [body, values]) map.delete(name);
    const names = changed(values).flatMap((name) => {
      if (!form.querySelector(`[data-list][name="${name}"]`)) return name;
      // Another page's changes of the list stay.
      const lists = before().map((one) => JSON.parse(one.get(name) ?? "[]"));
      const now = JSON.parse(values.get(name));
      body.delete(name);
      for (const one of now) if (!lists.every((list) => list.includes(one))) body.append(`${name}_add`, one);
      for (const one of new Set(lists.flat())) if (!now.includes(one)) body.append(`${name}_remove`, one);
      return [`${name}_add`, `${name}_remove`];
    });
    body.set("changed", names.join(" "));
    body.set("page", page);
    body.set("turn", (turn += 1));
    const held = { turn, values, choices: choices(form) };
    pending.add(held);
    return held;
  }

  // A refused text isn't tried again with other changes.
  const refused = () => [...form.querySelectorAll("[aria-invalid=true]")].filter((one) => one !== document.activeElement).map(({ name }) => name);

  // What was sent before it isn't written anymore.
  function accept(held) {
    for (const one of pending) if (one.turn <= held.turn) pending.delete(one);
    if (held.turn < done) return;
    done = held.turn;
    kept = held.choices;
    failed = renewed = false;
    clear(() => true);
    saved = new Map([...saved, ...held.values]);
    // What the server changed in the form is saved, too.
    for (const [name, now] of read(form)) if (held.values.has(name) ? !held.later.includes(name) : !saved.has(name)) saved.set(name, now);
  }

  const notes = () => [...form.querySelectorAll(".unsaved")];
  const isRefused = (one) => one.closest(ROW).querySelector("[aria-invalid=true]");

  // What is said of refused texts stays until they are changed.
  function clear(ours) {
    for (const one of notes().filter(ours)) {
      if (isRefused(one)) continue;
      if (one.contains(document.activeElement)) one.closest(ROW).querySelector(":checked, input, select")?.focus();
      one.remove();
    }
  }

  // Says at each of these settings that it isn't saved, and why. What says so already stays as it is.
  function note(names, reason, repeat) {
    const rows = new Set(names.flatMap((name) => [...form.querySelectorAll(`[name="${name}"]`)].map((one) => one.closest(ROW)).slice(0, 1)));
    rows.delete(null);
    if (!rows.size) return false;
    for (const old of notes()) if (rows.has(old.closest(ROW)) ? old.dataset.why !== reason.textContent : !isRefused(old)) old.remove();
    let last = null;
    for (const row of rows) {
      if (row.querySelector(".unsaved")) continue;
      last = document.createElement("p");
      last.className = "unsaved";
      last.dataset.why = reason.textContent;
      last.setAttribute("role", "alert");
      (row.matches(".onoff") ? row.querySelector(":scope > div") : row).append(last);
      const words = document.createElement("span");
      words.append(...[...reason.childNodes].map((one) => one.cloneNode(true)));
      last.append(words);
      if (repeat) last.append(button());
    }
    place.replaceChildren();
    last?.scrollIntoView({ block: "nearest" });
    return true;
  }

  function button() {
    const again = document.createElement("button");
    again.className = "btn small";
    again.textContent = t("Try again");
    return again;
  }

  function fail(message) {
    failed = true;
    const words = message ? document.createElement("span") : place.querySelector(":scope > [data-word]").cloneNode(true);
    if (message) words.textContent = message;
    words.prepend(t("Not saved."), " ");
    words.querySelector(".icon")?.remove();
    const out = refused();
    if (note(changed(read(form)).filter((name) => !out.includes(name)), words, true)) return;
    words.className = "bad";
    words.append(" ", button());
    place.replaceChildren(words);
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

  // A folder whose name is being typed is left for later where the page may come back.
  const typing = () => [...form.querySelectorAll("[data-apart]:focus")].map(({ name }) => name);

  // What is on its way is sent again, because it may end with the page. The answer is shown if the page stays.
  function leave(whole) {
    const out = [...refused(), ...(whole ? [] : typing())];
    const values = read(form);
    for (const name of out) values.delete(name);
    const text = JSON.stringify([...values]);
    if (text === flying || !changed(values).length) return;
    left = true;
    flying = text;
    const body = new URLSearchParams(new FormData(form));
    const ctx = { sourceElement: form, target: place, swap: "innerHTML" };
    sent.set(ctx, complete(body, out));
    const headers = { "X-CSRF-Token": csrf(), "HX-Request": "true", "HX-Target": "p#saved", Accept: "text/html" };
    fetch(form.action, { method: "POST", body, headers, keepalive: true })
      .then(async (raw) => {
        Object.assign(ctx, { response: { raw, status: raw.status, headers: raw.headers }, text: await raw.text() });
        answer(ctx);
        const there = raw.headers.get("HX-Redirect");
        if (there) location.assign(there);
        else if (raw.status !== 204) await htmx.swap(ctx);
      })
      .catch(() => (flying = ""));
  }

  // Who comes back sees what was saved, or why it wasn't.
  function back() {
    const out = [...refused(), ...typing()];
    if (left && changed(read(form)).some((name) => !out.includes(name))) submit();
    left = false;
  }

  // A save that failed on the server may be written; one that came after a later one, or was refused, isn't.
  function answer(ctx) {
    const held = sent.get(ctx);
    const { status } = ctx.response;
    flying = "";
    held.later = differ(read(form), held.values);
    if (status === 204 || (status >= 400 && status < 500)) pending.delete(held);
  }

  form.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    sent.set(ctx, complete(ctx.request.body, refused()));
    ctx.request.keepalive = true;
  });
  form.addEventListener("htmx:after:request", ({ detail: { ctx } }) => answer(ctx));
  form.addEventListener("htmx:error", (event) => {
    event.stopPropagation();
    flying = "";
    fail(offline());
  });
  form.addEventListener("htmx:after:swap", async ({ detail: { ctx } }) => {
    const held = sent.get(ctx);
    if (ctx.response.status === 204) return;
    if (ctx.response.status < 400) {
      // Later typing stays.
      for (const one of form.querySelectorAll("[data-apart]")) if (!held.later.includes(one.name)) one.value = "";
      return accept(held);
    }
    const wrong = form.elements[form.querySelector("#saved [data-field]")?.dataset.field];
    if (wrong?.matches?.(".input:not(select)")) {
      pending.add(held); // the other changes may be written
      note([wrong.name], place.querySelector("[data-word]"), false);
      return wrong.setAttribute("aria-invalid", "true");
    }
    if (mayPass(ctx.response.status)) {
      // A proxy's page says nothing to the reader.
      const once = !renewed && place.querySelector("[data-word=old_page]");
      fail(place.querySelector(":scope > [data-word]") ? "" : offline());
      renewed = once && (await renew());
      if (renewed) submit();
      return;
    }
    const back = new Set();
    for (const [one, state] of choices(form)) {
      // What was changed since then is sent next.
      const old = kept.get(one) ?? one.defaultChecked;
      if (state !== held.choices.get(one) || state === old) continue;
      one[one.matches("select") ? "value" : "checked"] = old;
      back.add(one.name);
    }
    const words = place.querySelector("[data-word]");
    if (words) note([...back], words, false);
    restored();
  });
  form.addEventListener("input", ({ target }) => {
    target.removeAttribute("aria-invalid");
    clear((one) => !one.querySelector("button"));
    if (!failed) place.replaceChildren();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? leave(false) : back()));
  addEventListener("pagehide", () => leave(true));
  addEventListener("pageshow", ({ persisted }) => persisted && back());
  addEventListener("online", () => failed && submit());
  addEventListener("beforeunload", (event) => failed && changed(read(form)).length && event.preventDefault());
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
