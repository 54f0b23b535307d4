// Pointing at the parts of an entry on the cleaned page: what is clicked becomes selectors in the form.
import { offline } from "../net.js";
import { t, tn } from "../words.js";

// Names of classes and ids that a selector can hold, and those that differ from entry to entry.
const NAME = /^-?[A-Za-z_][\w-]{0,60}$/;
const VARIABLE = /\d|^(?:first|last|odd|even|active|current|sticky|clearfix|left|right)$|^(?:tag|category|author|status|format|type)-/i;
const INLINE = new Set("a abbr b bdi br cite code em font i img label mark q s small span strong sub sup time u".split(" "));
// Fewest entries of a list, share of them that must have what was pointed at, and most steps of a selector.
const [FEWEST, SHARE, STEPS, LONGEST] = [3, 0.8, 6, 200];

const PATIENCE = 30000;

const form = document.querySelector("form[action='/add/page']");
const panel = document.getElementById("point");
const said = document.getElementById("point-said");
const shown = document.getElementById("point-show");
const say = (text) => (said.textContent = text);
const nodeOf = new WeakMap();
let [nodes, leaves, part, list, at, root] = [[], [], "title", null, -1, null];

function sheet() {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = panel.dataset.style;
  return link;
}

// -- the page as nodes

function build([tag, id, classes, children], up) {
  const el = document.createElement(INLINE.has(tag) ? "span" : "div");
  const node = { tag, id, classes: classes.split(" ").filter(Boolean), up, el, children: [], text: "" };
  el.dataset.tag = tag;
  nodeOf.set(el, node);
  nodes.push(node);
  for (const child of children) {
    if (typeof child === "string") {
      el.append(child, " ");
      node.text ||= child;
    } else {
      node.children.push(build(child, node));
      el.append(node.children.at(-1).el);
    }
  }
  if (node.text) {
    leaves.push(node);
    el.dir = "auto";
  }
  return node;
}

const within = (node) => node.children.flatMap((child) => [child, ...within(child)]);

function* above(node) {
  for (let one = node; one && one.tag !== "body" && one.tag !== "html"; one = one.up) yield one;
}

// -- selectors: rows of elements, each the child of the one before

const stable = (node) => node.classes.filter((name) => NAME.test(name) && !VARIABLE.test(name));

function describe(node, exact) {
  if (NAME.test(node.id) && (exact || !/\d/.test(node.id))) return { tag: node.tag, id: node.id, classes: [] };
  return { tag: node.tag, id: "", classes: stable(node).slice(0, exact ? 3 : 1) };
}

const write = (steps) => steps.map(({ tag, id, classes }) => tag + (id && `#${id}`) + classes.map((name) => `.${name}`).join("")).join(" > ");
const fits = (node, { tag, id, classes }) => node.tag === tag && (!id || node.id === id) && classes.every((name) => node.classes.includes(name));

function matches(node, steps) {
  let one = node;
  for (const step of steps.toReversed()) {
    if (!one || !fits(one, step)) return false;
    one = one.up;
  }
  return true;
}

// Ever longer selectors of a node: its own name, then with those of the elements around it.
function* selectors(node, top) {
  for (const exact of [false, true]) {
    const steps = [];
    for (const one of above(node)) {
      if (one === top || steps.length === STEPS) break;
      // An entry has an id of its own.
      steps.unshift(one === node ? { ...describe(one, exact), ...(top ? {} : { id: "", classes: stable(one).slice(0, 2) }) } : describe(one, exact));
      if (write(steps).length <= LONGEST) yield [...steps];
    }
  }
}

const reaches = (node, tags) => !tags.length || node.children.some((child) => child.tag === tags[0] && reaches(child, tags.slice(1)));

// The entries that have such a part: of all rows around it the longest one, and of equal ones the outermost.
function findList(node, named = true) {
  let best = null;
  const tags = [];
  for (const one of above(node)) {
    for (const steps of selectors(one, null)) {
      // Names of elements alone say too little, unless the page has nothing else.
      if (named && !steps.some(({ id, classes }) => id || classes.length)) continue;
      const found = nodes.filter((other) => matches(other, steps));
      if (found.length < FEWEST) break;
      const alike = found.filter((other) => reaches(other, tags));
      if (alike.length < SHARE * found.length) continue;
      if (alike.length >= (best?.items.length ?? FEWEST)) best = { steps, items: found };
      break;
    }
    tags.unshift(one.tag);
  }
  return best ?? (named ? findList(node, false) : null);
}

// The selector of a part inside its entry; null: none finds it first.
function relate(node, item) {
  const inside = within(item);
  for (const steps of selectors(node, item)) if (inside.find((one) => matches(one, steps)) === node) return write(steps);
  return null;
}

// -- choosing

const field = (name) => form.elements.namedItem(name);

function fill(values) {
  field("kind").value = "css";
  for (const [name, value] of Object.entries(values)) field(name).value = value;
}

function setPart(name) {
  part = name;
  for (const button of panel.querySelectorAll("[data-part]")) button.setAttribute("aria-pressed", button.dataset.part === name);
}

function mark(className, marked) {
  for (const { el } of nodes) el.classList.toggle(className, marked.includes(nodeOf.get(el)));
}

function chooseTitle(node) {
  const found = findList(node);
  if (!found) return say(t("This stands alone on the page. Point at the title of an entry in a list."));
  list = found;
  const item = [...above(node)].find((one) => list.items.includes(one));
  const link = [...above(node)].find((one) => one.tag === "a") ?? within(node).find((one) => one.tag === "a");
  const names = { date: "", author: "", body: "", image: "" };
  fill({ ...names, item: write(list.steps), title: node === item ? "" : (relate(node, item) ?? ""), link: link && link !== item && within(item).includes(link) ? (relate(link, item) ?? "") : "" });
  mark("item", list.items);
  mark("chosen", [node]);
  setPart("date");
  return send();
}

function choosePart(node) {
  const item = list && [...above(node)].find((one) => list.items.includes(one));
  if (!item) return say(list ? t("This is outside the entries. Point at a part of one of them.") : t("Point at the title of an entry first."));
  const target = part === "image" ? [node, ...within(node)].find((one) => one.tag === "img") : node;
  if (!target) return say(t("This isn't a picture."));
  const selector = target === item ? null : relate(target, item);
  if (!selector) return say(t("Eventr can't tell this part from others. Point at one beside it."));
  fill({ [part]: selector });
  target.el.classList.add("chosen");
  return send();
}

function send() {
  shown.hidden = true;
  say(t("Reading the entries…"));
  form.requestSubmit();
}

const choose = (node) => (part === "title" ? chooseTitle(node) : choosePart(node));

// -- pointing with the mouse, a finger or keys

function hover(node) {
  mark("over", node ? [node] : []);
  if (node && node.text) say(node.text);
}

function move(by) {
  at = Math.max(0, Math.min(leaves.length - 1, at + by));
  hover(leaves[at]);
  leaves[at]?.el.scrollIntoView({ block: "nearest" });
}

const MOVES = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 20, PageUp: -20, Home: -1e6, End: 1e6 };

function listen(page) {
  page.addEventListener("pointermove", ({ target, pointerType }) => pointerType === "mouse" && nodeOf.has(target) && hover(nodeOf.get(target)));
  page.addEventListener("pointerleave", () => mark("over", at < 0 ? [] : [leaves[at]]));
  page.addEventListener("click", ({ target }) => nodeOf.has(target) && choose(nodeOf.get(target)));
  page.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in MOVES) move(MOVES[event.key]);
    else if (event.key === "Enter" || event.key === " ") at >= 0 && choose(leaves[at]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

async function open(key) {
  const signal = AbortSignal.timeout(PATIENCE);
  const answer = await fetch(`/add/page/outline?key=${key}`, { headers: { Accept: "application/json" }, cache: "no-store", signal }).catch(() => null);
  const outline = answer?.ok ? await answer.json().catch(() => null) : null;
  panel.hidden = false;
  if (!outline) return say(answer?.status === 404 ? t("The page is no longer stored. Choose Find lists again.") : offline());
  [nodes, leaves, list, at] = [[], [], null, -1];
  const place = document.getElementById("point-page");
  root ??= (document.head.append(sheet()), place.attachShadow({ mode: "open" }));
  const page = build(outline, null).el;
  page.classList.add("pointed");
  page.tabIndex = 0;
  page.setAttribute("role", "application");
  page.setAttribute("aria-label", t("The page. Arrow keys move, Enter chooses."));
  listen(page);
  root.replaceChildren(sheet(), page);
  setPart("title");
  shown.hidden = true;
  say(t("Point at the title of an entry."));
  panel.scrollIntoView({ block: "start" });
  page.focus({ preventScroll: true });
}

// What the selectors find is shown above the page, and said here.
function report() {
  const [alert, found] = ["#lists [role=alert]", "#lists .choice"].map((one) => document.querySelector(one));
  if (panel.hidden || !list) return;
  if (alert) return say(alert.textContent.trim());
  const titles = [...(found?.querySelectorAll(".latest > span") ?? [])].map((one) => one.textContent.trim());
  const count = tn("{n} entry found.", "{n} entries found.", list.items.length);
  if (!found) return;
  say(`${count} ${titles.slice(0, 2).join(" · ")}`);
  shown.textContent = t("Show the list");
  shown.hidden = false;
}

// The list and its button are above the page, out of sight.
shown.addEventListener("click", () => {
  document.getElementById("lists").scrollIntoView({ block: "start" });
  document.querySelector("#lists input:checked")?.focus({ preventScroll: true });
});

document.addEventListener("click", ({ target }) => {
  const [opener, button] = [target.closest("[data-point]"), target.closest("#point [data-part]")];
  if (opener) open(opener.dataset.point);
  if (button) setPart(button.dataset.part);
});
document.addEventListener("htmx:after:swap", report);
