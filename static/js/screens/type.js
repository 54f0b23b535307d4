// Theme and text: the popover "Aa", and the keys of both. Loads with the first of them.
import { register } from "../actions.js";
import { fill, read, show, tint } from "../look-form.js";
import { load, post } from "../net.js";
import { say, toast } from "../toast.js";
import { t } from "../words.js";

const root = document.documentElement;
const THEMES = { auto: t("System"), light: t("Light"), sepia: t("Sepia"), dark: t("Dark"), black: t("Black") };
const [SMALLEST, LARGEST] = [16, 24];
const BUTTONS = '[data-key="look-text"]';
const EDGE = 8;
const WIDEST = 400;
// As much of the text is in sight above the box, if there is as much.
const SEEN = 120;
const box = document.createElement("div");
const buttons = () => [...document.querySelectorAll(BUTTONS)];
const form = () => box.querySelector("form");
const isOpen = () => box.matches(":popover-open");
// A pane that another one covers keeps its place, and is hidden.
const isSeen = (one) => one?.checkVisibility({ visibilityProperty: true });
const below = matchMedia("(max-width: 599px)");
const roomy = matchMedia("(min-width: 900px)");
let narrowed = null;

// One request at a time; changes made meanwhile go together with the next one.
let unsent = null;
let flying = null;
let sending = false;
async function save(changes) {
  unsent = { ...unsent, ...changes };
  if (sending) return;
  sending = true;
  try {
    while (unsent) {
      flying = unsent;
      unsent = null;
      await post("/settings/look", flying, true);
    }
    tell(t("Saved"));
  } catch (failure) {
    unsent = { ...flying, ...unsent };
    retry(failure);
  } finally {
    flying = null;
    sending = false;
  }
}

// What the server refused is no good a second time.
function retry({ status, message }) {
  const box = toast(t("Couldn't save your change. {reason}", { reason: message }));
  if (status === 400) return void (unsent = null);
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = t("Try again");
  button.addEventListener("click", () => (box.remove(), save({})));
  box.append(button);
}

// Who leaves meanwhile sends the rest.
addEventListener("pagehide", () => unsent && post("/settings/look", { ...flying, ...unsent }, true).catch(() => {}));

function tell(text) {
  const place = box.querySelector(".saved");
  if (place) place.textContent = text;
}

function makeRoom(pane = null, width = 0) {
  if (narrowed) narrowed.style.paddingInlineStart = "";
  narrowed = pane;
  if (pane) pane.style.paddingInlineStart = `${width}px`;
}

// Beside the text that it changes: over the list, which stays as it is. The text makes room if there isn't enough;
// in a small window, the box is below its button.
function place() {
  Object.assign(box.style, { insetBlockStart: "", insetInlineEnd: "", inlineSize: "" });
  makeRoom();
  if (below.matches) return;
  const at = buttons().find((button) => !button.closest("details") && isSeen(button))?.getBoundingClientRect();
  const fromEnd = ({ left, right }) => (root.dir === "rtl" ? left : root.clientWidth - right);
  const most = () => root.clientWidth - box.offsetWidth - EDGE;
  let [top, end] = [at?.bottom ?? 0, at ? fromEnd(at) : EDGE];
  const pane = roomy.matches && [...document.querySelectorAll(".pane-article, .pane-list")].find((one) => isSeen(one.querySelector(".prose")));
  if (pane) {
    const text = pane.getBoundingClientRect();
    end = fromEnd(text) + text.width + EDGE;
    const list = document.querySelector(".pane-list");
    if (pane !== list && isSeen(list)) {
      top = list.querySelector(".bar").getBoundingClientRect().bottom + EDGE;
      box.style.inlineSize = `${Math.min(WIDEST, Math.max(box.offsetWidth, list.offsetWidth - 2 * EDGE))}px`;
    }
    if (end > most()) makeRoom(pane, end - most());
  }
  box.style.insetBlockStart = `${Math.max(EDGE, top)}px`;
  box.style.insetInlineEnd = `${Math.max(EDGE, Math.min(end, most()))}px`;
}

// On a phone the box covers the lower half: the text that it changes goes to the upper one.
function bare() {
  const pane = document.getElementById("article");
  const words = document.createTreeWalker(pane, NodeFilter.SHOW_TEXT);
  const isOfText = ({ data, parentElement }) => data.trim() && parentElement.closest(".article > .prose");
  while (words.nextNode() && !isOfText(words.currentNode));
  const range = document.createRange();
  range.selectNodeContents(words.currentNode);
  const { top } = range.getBoundingClientRect();
  if (below.matches && isOfText(words.currentNode) && top > box.getBoundingClientRect().top - SEEN) {
    pane.scrollTop += top - pane.querySelector(".bar").getBoundingClientRect().bottom - EDGE;
  }
}

async function fetchForm() {
  if (!(await load("/settings/look", box.id)) || !form()) return false;
  const style = box.querySelector("link");
  if (!style.sheet) await new Promise((done) => ["load", "error"].forEach((kind) => style.addEventListener(kind, done)));
  form().addEventListener("input", () => (tell(""), show(form()), mark()));
  form().addEventListener("change", () => save(read(form())));
  form().addEventListener("submit", (event) => event.preventDefault());
  return true;
}

async function open() {
  if (isOpen()) return box.hidePopover();
  // The press that closed it is the same that gets here.
  if (pressed) return void (pressed = false);
  if (!form() && !(await fetchForm())) return;
  for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false;
  fill(form());
  tell("");
  box.showPopover();
  place();
  form().querySelector(":checked").focus({ preventScroll: true });
  bare();
}

function wear(theme) {
  root.dataset.theme = theme;
  tint();
  mark();
  toast(t("Theme: {name}", { name: THEMES[theme] }));
  save({ theme });
}

function next() {
  const names = Object.keys(THEMES);
  wear(names[(names.indexOf(root.dataset.theme) + 1) % names.length]);
}

// The menu that names the themes shows which one the page has.
function mark() {
  for (const button of document.querySelectorAll('[data-key="theme-set"]')) button.setAttribute("aria-pressed", button.value === root.dataset.theme);
}

function resize(by) {
  const size = Math.min(LARGEST, Math.max(SMALLEST, Number(root.dataset.textSize) + by));
  root.dataset.textSize = size;
  say(t("Text size {size}", { size }));
  save({ text_size: size });
}

let pressed = false;
document.addEventListener("pointerdown", ({ target }) => (pressed = isOpen() && target.closest(BUTTONS) !== null), true);
Object.assign(box, { id: "look", className: "look-box", popover: "auto" });
box.setAttribute("role", "dialog");
box.setAttribute("aria-label", t("Theme and text"));
box.addEventListener("beforetoggle", ({ newState }) => newState === "closed" && makeRoom());
box.addEventListener("toggle", () => buttons().forEach((button) => button.setAttribute("aria-expanded", isOpen())));
addEventListener("resize", () => isOpen() && place());
document.body.append(box);

register({
  "look-text": () => void open(),
  "theme-next": next,
  "theme-set": (button) => wear(button.value),
  "text-larger": () => resize(1),
  "text-smaller": () => resize(-1),
});
