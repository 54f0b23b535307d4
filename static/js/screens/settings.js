// Previews display settings while they are chosen.
import { bindCopies } from "../copying.js";
import { show } from "../look-form.js";
import { offline } from "../net.js";
import { watch, watchList } from "../saving.js";
import { say, toast } from "../toast.js";

const form = document.querySelector("form[data-preview]");

form?.addEventListener("input", () => show(form));
for (const one of document.querySelectorAll("form[hx-target='#saved']")) watch(one, () => one === form && show(form));
// Later changes aren't saved yet, so remove the confirmation, and keep the button in sight.
for (const one of document.querySelectorAll(".section form")) {
  one.addEventListener("input", () => {
    one.classList.add("changed");
    if (!one.matches("[hx-target='#saved']")) one.querySelector("#saved")?.replaceChildren();
  });
}
for (const list of document.querySelectorAll(".section [id$='-list']")) watchList(list);

// A question that opens below the window's edge comes into sight.
addEventListener("toggle", ({ target }) => target.matches?.(".ask[open]") && target.scrollIntoView({ block: "nearest" }), true);

// Lists that are fetched again after a change. If it was refused, the list stays, and the reason appears.
const isRefused = ({ sourceElement, response }) => response?.status >= 400 && sourceElement.matches?.("[hx-select]");
let moved = null;

// The menu of a line closes with the new list, so its button takes the focus, which htmx keeps by its id.
addEventListener("submit", ({ target }) => {
  moved = target.matches("[hx-select]") && target.closest(".menu")?.querySelector("summary");
  if (moved) moved.focus();
});
// An error's page doesn't have the list: what is wanted of it is its text.
addEventListener("htmx:after:request", ({ detail: { ctx } }) => isRefused(ctx) && (ctx.select = null));
addEventListener("htmx:before:swap", (event) => {
  const { ctx, tasks } = event.detail;
  if (!isRefused(ctx)) return;
  event.preventDefault();
  moved = null;
  toast(tasks[0]?.fragment.querySelector("[role=alert] p")?.textContent ?? offline());
});
addEventListener("htmx:after:swap", () => {
  if (moved) say(document.getElementById(moved.id)?.closest("[data-place]")?.dataset.place ?? "");
  moved = null;
});

// Search: arrow keys go through what is found, Enter opens the first, Esc clears.
const search = document.getElementById("find-setting");
const found = () => [...document.querySelectorAll("#found-settings a")];

function move(event) {
  const links = found();
  const at = links.indexOf(document.activeElement);
  if (event.key === "ArrowDown" && links.length) links[Math.min(at + 1, links.length - 1)].focus();
  else if (event.key === "ArrowUp" && at >= 0) (links[at - 1] ?? search).focus();
  else if (event.key === "Enter" && at < 0 && links.length && search.value) links[0].click();
  else if (event.key === "Escape" && (search.value || at >= 0)) {
    search.value = "";
    search.focus();
    search.dispatchEvent(new Event("input", { bubbles: true }));
  } else return;
  event.preventDefault();
}

for (const part of [search, document.getElementById("found-settings")]) part?.addEventListener("keydown", move);

// The setting that a link leads to is ready to be changed.
function aim() {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!place?.closest(".section")) return;
  for (const details of place.querySelectorAll("details")) details.open = true;
  const control = place.matches("input, select, textarea, button") ? place : place.querySelector(":checked, input:not([type=hidden]), select, textarea, summary, button");
  control?.focus({ preventScroll: true });
}

// What was refused is to be mended first.
function begin() {
  const wrong = document.querySelector(".section [aria-invalid=true]");
  if (!wrong) return aim();
  // With the button below, if both fit.
  wrong.closest(".service-form")?.querySelector(".save").scrollIntoView({ block: "nearest" });
  wrong.focus({ preventScroll: true });
  (wrong.closest(".field") ?? wrong).scrollIntoView({ block: "nearest" });
}

addEventListener("hashchange", aim);
// The browser takes the focus away when it scrolls there at the end of loading.
if (document.readyState === "complete") begin();
else addEventListener("load", () => setTimeout(begin));

bindCopies();
