// Search as you type: names and the first results below the search field. Loads with the field.
import { load } from "../net.js";
import { say } from "../toast.js";
import { t, tn } from "../words.js";

// Milliseconds without a keystroke before the search begins, and characters that it needs.
const [PAUSE, LEAST] = [250, 2];
const field = () => document.getElementById("q");
const box = () => document.getElementById("typed");
let timer = 0;

const sheet = document.createElement("link");
sheet.rel = "stylesheet";
sheet.href = field().form.dataset.style;
document.head.append(sheet);

function place() {
  const made = box() ?? document.createElement("div");
  made.id = "typed";
  made.setAttribute("hx-sync", "this:replace");
  if (made.parentElement !== field().form) field().form.append(made);
  return made;
}

function close() {
  clearTimeout(timer);
  if (box()) box().hidden = true;
}

async function search() {
  const text = field().value;
  if (text.trim().length < LEAST) return close();
  const panel = place();
  if (!(await load(`/search/typed?${new URLSearchParams({ q: text })}`, "typed"))) return;
  // The field may be gone, changed or left by now.
  if (field()?.value !== text || !field().form.contains(document.activeElement)) return;
  panel.hidden = !panel.querySelector("a, p");
  const rows = panel.querySelector("[data-count]");
  const names = panel.querySelectorAll("[data-fill]").length;
  if (names) say(tn("{n} suggestion", "{n} suggestions", names));
  else say(rows ? tn("{n} result", "{n} results", +rows.dataset.count) : (panel.textContent.trim() || t("No results")));
}

function typed({ target, isComposing }) {
  if (target.id !== "q" || isComposing) return;
  clearTimeout(timer);
  timer = setTimeout(search, PAUSE);
}

function fill(link) {
  field().value = link.dataset.fill;
  field().focus();
  search();
}

function pressed(event) {
  const inside = event.target.closest?.(".search-form");
  if (!inside || event.isComposing || box()?.hidden !== false) return;
  const stops = [field(), ...box().querySelectorAll("a")];
  const at = stops.indexOf(event.target);
  if (event.key === "Escape") {
    close();
    field().focus();
  } else if (at >= 0 && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    stops.at((at + (event.key === "ArrowDown" ? 1 : -1)) % stops.length).focus();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

function clicked(event) {
  const name = event.target.closest("#typed [data-fill]");
  if (name) event.preventDefault(), fill(name);
  else if (event.target.closest("#typed a") || !event.target.closest(".search-form")) close();
}

document.addEventListener("input", typed);
document.addEventListener("compositionend", typed);
document.addEventListener("keydown", pressed, true);
document.addEventListener("click", clicked);
document.addEventListener("submit", ({ target }) => target.matches(".search-form") && close());
document.addEventListener("focusout", ({ target, relatedTarget }) => target.closest(".search-form") && relatedTarget && !relatedTarget.closest(".search-form") && close());
