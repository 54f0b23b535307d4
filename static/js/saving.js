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
  let apart = false; // the next request leaves out what was just refused
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

  const invalid = () => [...form.querySelectorAll("[aria-invalid=true]")];
  // A refused text isn't tried again with other changes, except from its field.
  const refused = () => invalid().filter((one) => apart || one !== document.activeElement).map(({ name }) => name);

  // What is said to be not saved yet: of refused texts, something else is said.
  function unsaved() {
    const out = invalid().map(({ name }) => name);
    return changed(read(form)).filter((name) => !out.includes(name));
  }

  // What was sent before it isn't written anymore.
  function accept(held) {
    for (const one of pending) if (one.turn <= held.turn) pending.delete(one);
    if (held.turn < done) return;
    done = held.turn;
    kept = held.choices;
    renewed = false;
    saved = new Map([...saved, ...held.values]);
    // What the server changed in the form is saved, too.
    for (const [name, now] of read(form)) if (held.values.has(name) ? !held.later.includes(name) : !saved.has(name)) saved.set(name, now);
    for (const one of invalid()) if (held.values.has(one.name) && !held.later.includes(one.name)) one.removeAttribute("aria-invalid");
    settle();
    failed = notes().some(({ dataset }) => dataset.kind === "failed");
  }

  const controls = (name) => [...form.querySelectorAll(`[name="${name}"]`)];
  const notes = () => [...form.querySelectorAll(".unsaved")];
  const namesOf = ({ dataset }) => dataset.names.split(" ");
  const isRefusal = ({ dataset }) => dataset.kind === "refused";

  // The control that a note is about. What is in a closed menu can't have the focus.
  function focusOn([name]) {
    const all = controls(name);
    const one = all.find(({ checked }) => checked) ?? all[0];
    (one?.closest("details:not([open])")?.querySelector("summary") ?? one)?.focus();
  }

  // What is said stays while it is true: of refused texts until they are changed, of changes until they are saved, and
  // of choices that were put back until something else happens.
  function settle() {
    const names = { refused: invalid().map(({ name }) => name), failed: unsaved(), back: [] };
    for (const one of notes()) {
      const left = namesOf(one).filter((name) => names[one.dataset.kind].includes(name));
      one.dataset.names = left.join(" ") || one.dataset.names;
      if (left.length) continue;
      if (one.contains(document.activeElement)) focusOn(namesOf(one));
      one.remove();
    }
    mark();
  }

  // Controls don't look as if their change were saved.
  function mark() {
    const names = notes().filter(({ dataset }) => dataset.kind === "failed").flatMap(namesOf);
    for (const one of form.elements) one.toggleAttribute("data-unsaved", names.includes(one.name));
  }

  // Says at each of these settings that it isn't saved, and why. What says so already stays as it is. A field may have
  // a refused text beside another change that failed.
  function note(names, reason, kind) {
    const rows = new Map();
    for (const name of names) {
      const row = controls(name)[0]?.closest(ROW);
      if (row) rows.set(row, [...(rows.get(row) ?? []), name]);
    }
    if (!rows.size) return false;
    settle();
    let last = null;
    for (const [row, ours] of rows) {
      const old = notes().find((one) => one.closest(ROW) === row && isRefusal(one) === (kind === "refused"));
      const data = { kind, names: ours.join(" "), why: reason.textContent };
      if (old && Object.entries(data).every(([key, text]) => old.dataset[key] === text)) continue;
      last = document.createElement("p");
      last.className = "unsaved";
      Object.assign(last.dataset, data);
      last.setAttribute("role", "alert");
      const words = document.createElement("span");
      // Where a line has two switches, it says which one.
      if (row.querySelectorAll("[role=switch]").length > 1) words.append(...ours.map((name) => `${nameOf(name)}. `));
      words.append(...[...reason.childNodes].map((one) => one.cloneNode(true)));
      last.append(words);
      if (kind === "failed") last.append(button());
      const hasFocus = old?.contains(document.activeElement);
      if (old) old.replaceWith(last);
      else (row.matches(".onoff") ? row.querySelector(":scope > div") : row).append(last);
      if (!hasFocus) continue;
      if (kind === "failed") last.querySelector("button").focus();
      else focusOn(ours);
    }
    mark();
    place.replaceChildren();
    last?.scrollIntoView({ block: "nearest" });
    return true;
  }

  function nameOf(name) {
    const [one] = controls(name);
    return one.ariaLabel ?? one.labels[0].textContent;
  }

  function button() {
    const again = document.createElement("button");
    again.className = "btn small";
    again.textContent = t("Try again");
    return again;
  }

  // The reason is what the server says, if nothing else is passed.
  function fail(reason) {
    failed = true;
    const words = reason === undefined ? place.querySelector(":scope > [data-word]").cloneNode(true) : document.createElement("span");
    if (reason) words.textContent = reason;
    words.prepend(t("Not saved."), " ");
    words.querySelector(".icon")?.remove();
    if (note(unsaved(), words, "failed")) return;
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
    sent.set(ctx, complete(ctx.request.body, apart ? [...refused(), ...typing()] : refused()));
    apart = false;
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
      wrong.setAttribute("aria-invalid", "true");
      note([wrong.name], place.querySelector("[data-word]"), "refused");
      if (!unsaved().some((name) => !held.later.includes(name))) return;
      // What went along with it goes again without it, once.
      apart = held.values.has(wrong.name);
      return apart ? submit() : fail("");
    }
    if (mayPass(ctx.response.status)) {
      // A proxy's page says nothing to the reader.
      const once = !renewed && place.querySelector("[data-word=old_page]");
      fail(place.querySelector(":scope > [data-word]") ? undefined : offline());
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
    if (words) note([...back], words, "back");
    restored();
  });
  form.addEventListener("input", ({ target }) => {
    target.removeAttribute("aria-invalid");
    settle();
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
