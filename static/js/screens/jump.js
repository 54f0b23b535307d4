// Quick jump: finds feeds, folders, tags and pages by parts of their names. Loads on first use.
import { register } from "../actions.js";
import * as panes from "../panes.js";
import * as treeview from "../treeview.js";
import { number, t, tn } from "../words.js";

const SHOWN = 50;
// As in app/web/view/i18n.py.
const BOTH = [/\p{Script=Arabic}|\p{Script=Hebrew}/u, /\p{Script=Latin}|\p{Script=Cyrillic}/u];
const dialog = document.getElementById("jump");
const field = document.createElement("input");
const list = document.createElement("ul");
const none = document.createElement("p");
const status = document.createElement("p");
const hint = document.createElement("p");
let targets = [];
let at = 0;

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

const PLACES = () => [
  [t("Today"), "/read/today"],
  [t("All entries"), "/read/all"],
  [t("Starred"), "/read/starred"],
  [t("Recently read"), "/read/recent"],
  [t("Search"), "/search"],
  [t("Tags"), "/tags"],
  [t("Add a feed"), "/add"],
  [t("Subscriptions"), "/subscriptions"],
  [t("Import and export"), "/imports"],
  [t("Topics"), "/packs"],
  [t("Undo history"), "/history"],
  [t("Notifications"), "/notifications"],
  [t("Write a post"), "/compose"],
  [t("Settings"), "/settings"],
  [t("Reading"), "/settings/reading", t("Settings")],
  [t("Display and language"), "/settings/display", t("Settings")],
  [t("Keyboard shortcuts"), "/settings/keys", t("Settings")],
  [t("Sharing"), "/settings/sharing", t("Settings")],
  [t("Notification settings"), "/settings/notifications", t("Settings")],
  [t("Privacy"), "/settings/privacy", t("Settings")],
  [t("Apps"), "/settings/apps", t("Settings")],
  [t("Files"), "/settings/files", t("Settings")],
  [t("Reading statistics"), "/settings/statistics", t("Settings")],
  [t("Account"), "/settings/account", t("Settings")],
  [t("Sessions"), "/settings/sessions", t("Settings")],
  ...(document.querySelector('a[href="/admin"]') ? ADMIN() : []),
];

// Only for admins; for everyone else these pages don't exist.
const ADMIN = () => [
  [t("Admin"), "/admin"],
  [t("Feeds"), "/admin/feeds", t("Admin")],
  [t("Users"), "/admin/users", t("Admin")],
  [t("Jobs"), "/admin/jobs", t("Admin")],
  [t("Server"), "/admin/settings", t("Admin")],
];

function target(title, url, link, where) {
  const parent = link?.parentElement.parentElement.closest(".folder");
  const folder = where ?? parent?.querySelector(":scope > a span")?.textContent ?? "";
  return { title, url, link, folder, text: plain(`${title} ${folder}`), unread: Number(link?.dataset.unread ?? 0) };
}

// Uses the page's tree; on a page without one, or with a part of it, that of the reader.
async function gather() {
  let links = treeview.links("a[href]:not(.menu a)");
  if (!treeview.root() || treeview.links(".rest").length) {
    const holder = document.createElement("div");
    holder.hidden = true;
    document.body.append(holder);
    await htmx.ajax("GET", "/read/tree?whole=1", { target: holder, select: "nav" });
    links = holder.querySelectorAll(".tree a[href]:not(.menu a)");
    holder.remove();
  }
  const found = new Map();
  for (const link of links) {
    const one = target(link.querySelector("span").textContent, link.getAttribute("href"), link);
    if (!found.has(one.url)) found.set(one.url, one);
  }
  for (const [title, url, where] of PLACES()) if (!found.has(url)) found.set(url, target(title, url, null, where));
  targets = [...found.values()];
}

// Each word must match: best at the start of the name, then at the start of a word, then within one, then as letters
// in order.
function rank(text, words) {
  let sum = 0;
  for (const word of words) {
    const place = text.indexOf(word);
    if (place === 0) sum += 1;
    else if (place > 0 && /[^\p{L}\p{N}]/u.test(text[place - 1])) sum += 2;
    else if (place > 0) sum += text.includes(` ${word}`) ? 2 : 4;
    else if (word.length > 1 && inOrder(text, word)) sum += 20;
    else return 0;
  }
  return sum + text.length / 1000;
}

function inOrder(text, word) {
  let from = 0;
  for (const letter of word) {
    from = text.indexOf(letter, from) + 1;
    if (!from) return false;
  }
  return true;
}

function search() {
  const words = plain(field.value).split(/\s+/).filter(Boolean);
  if (!words.length) return [...targets].sort((a, b) => (b.unread > 0) - (a.unread > 0));
  const ranked = targets.map((one) => [rank(one.text, words), one]).filter(([points]) => points);
  return ranked.sort(([a], [b]) => a - b).map(([, one]) => one);
}

// A name of both directions is cut where it ends.
function write(box, name) {
  if (BOTH.every((letters) => letters.test(name))) box.className = "mix";
  else box.dir = "auto";
  box.textContent = name;
}

function option({ title, folder, unread, url, link }, index) {
  const item = document.createElement("li");
  const [name, where, count] = ["span", "small", "b"].map((tag) => document.createElement(tag));
  item.id = `jump-${index}`;
  item.setAttribute("role", "option");
  item.dataset.url = url;
  write(name, title);
  write(where.appendChild(document.createElement("span")), folder);
  count.textContent = unread ? number(unread) : "";
  // Folders have no sign of their own; a page has that of a link to it, else of the settings.
  const shown = link
    ? link.querySelector(".av, .icon") ?? document.querySelector(".tree-head [href] .icon")
    : document.querySelector(`a[href="${url}"] .icon`) ?? document.querySelector('a[href^="/settings"] .icon, a[href="/you"] .icon');
  const sign = shown?.cloneNode(true) ?? document.createElement("i");
  sign.classList.add("sign");
  item.append(sign, name, where, count);
  return item;
}

function draw() {
  const found = search();
  list.replaceChildren(...found.slice(0, SHOWN).map(option));
  none.hidden = found.length > 0;
  status.textContent = found.length ? tn("{n} result", "{n} results", found.length) : none.textContent;
  choose(0);
}

function choose(index) {
  const items = [...list.children];
  at = items.length ? (index + items.length) % items.length : 0;
  for (const [n, item] of items.entries()) item.setAttribute("aria-selected", n === at);
  items[at]?.scrollIntoView({ block: "nearest" });
  if (items.length) field.setAttribute("aria-activedescendant", items[at].id);
  else field.removeAttribute("aria-activedescendant");
}

function go() {
  const one = targets.find(({ url }) => url === list.children[at]?.dataset.url);
  if (!one) return;
  dialog.close();
  if (panes.reader() && one.link?.matches("[data-stream]")) panes.go(one.url);
  else location.assign(one.url);
}

const MOVES = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };

function pressed(event) {
  if (event.isComposing) return;
  if (event.key === "Enter") go();
  else if (MOVES[event.key]) choose(at + MOVES[event.key]);
  else return;
  event.preventDefault();
}

function build() {
  field.className = "input";
  field.type = "text";
  field.placeholder = t("Name of a feed, folder or page");
  const said = { role: "combobox", "aria-label": t("Go to"), "aria-controls": "jump-list", "aria-expanded": true, "aria-autocomplete": "list", autocomplete: "off", spellcheck: false, dir: "auto" };
  for (const [name, value] of Object.entries(said)) field.setAttribute(name, value);
  list.id = "jump-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", t("Results"));
  none.className = "empty-line";
  none.textContent = t("No results. Try fewer words or letters.");
  status.className = "vh";
  status.setAttribute("role", "status");
  hint.className = "jump-hint";
  hint.textContent = t("↑ and ↓ choose, Enter opens, Esc closes.");
  dialog.append(field, list, none, hint, status);
  field.addEventListener("input", draw);
  field.addEventListener("keydown", pressed);
  list.addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (item) choose([...list.children].indexOf(item)), go();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

// Shown without its style, the dialog would change its size before one's eyes.
function dress() {
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = dialog.dataset.style;
  document.head.append(sheet);
  return new Promise((done) => (sheet.onload = sheet.onerror = done));
}

async function show() {
  if (!dialog.firstChild) {
    build();
    await dress();
  }
  await gather();
  field.value = "";
  dialog.showModal();
  draw();
  field.focus();
}

register({ jump: show });
