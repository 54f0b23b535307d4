// Actions on a feed or folder of the tree: a button beside it and the menu key open the same menu.
import * as counts from "./counts.js";
import { post } from "./net.js";
import * as list from "./list.js";
import * as rows from "./rows.js";
import { toast } from "./toast.js";
import * as tree from "./treemove.js";
import * as view from "./treeview.js";
import { t } from "./words.js";

// From this many places on, a field finds them.
const LONG = 10;

function make(name, props = {}, ...children) {
  const element = Object.assign(document.createElement(name), props);
  element.append(...children);
  return element;
}

function picture(name) {
  const icon = document.querySelector(".tree-head [href] .icon").cloneNode(true);
  const use = icon.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*/, `#${name}`));
  return icon;
}

const box = make("div", { className: "menu-box" });
const summary = make("summary", { className: "tool" });
const menu = make("details", { className: "menu" }, summary, box);
const holder = make("span", { className: "tree-more" }, menu);

export function attach(item) {
  if (!item || menu.open || holder.parentElement === tree.shownOf(item)) return;
  if (holder.contains(document.activeElement)) return;
  if (!summary.firstChild) summary.append(picture("more"));
  summary.setAttribute("aria-label", t("More actions for {name}", { name: tree.saidOf(item) }));
  tree.linkOf(tree.shownOf(item)).after(holder);
}

export function open(item) {
  menu.open = false;
  view.reveal(tree.linkOf(item));
  attach(item);
  fill(item);
  menu.open = true;
  box.querySelector("button, a").focus();
}

function entry(icon, words, run) {
  const button = make("button", { type: "button" }, picture(icon), words);
  button.addEventListener("click", () => {
    menu.open = false;
    summary.focus();
    run();
  });
  return button;
}

function fill(item) {
  const folder = tree.isFolder(item);
  const details = make("a", { href: `/feeds/${tree.idOf(item)}` }, picture("gear"), t("Feed settings"));
  box.replaceChildren(
    entry("folder", t("Move to…"), () => choosePlace(item)),
    entry("note", t("Rename…"), () => rename(item)),
    entry("check-all", t("Mark all as read"), () => markRead(item)),
    ...(folder && !tree.homeOf(item) ? [entry("plus", t("New subfolder…"), () => create(item))] : []),
    folder ? entry("trash", t("Delete, keep feeds"), () => dissolve(item)) : details,
    ...(folder ? [] : [entry("close", t("Unsubscribe"), () => unsubscribe(item))]),
  );
}

// One dialog at a time; resolves to the choice, or to null if it was closed.
function ask(title, body) {
  const close = make("button", { className: "tool", value: "" }, picture("close"));
  close.setAttribute("aria-label", t("Close"));
  const heading = make("h2", { textContent: title, id: "tree-ask" });
  const head = make("div", { className: "dialog-head" }, heading, make("form", { method: "dialog" }, close));
  const dialog = make("dialog", { className: "tree-ask" }, head, make("div", { className: "dialog-body" }, body));
  dialog.setAttribute("aria-labelledby", "tree-ask");
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue || null);
      dialog.remove();
    });
    dialog.showModal();
    body.querySelector("input, button").focus();
  });
}

function askName(title, value) {
  const input = make("input", { className: "input", value, maxLength: 128, required: true, dir: "auto" });
  const label = make("label", { className: "field" }, make("span", { className: "label", textContent: t("Name") }), input);
  const save = make("button", { className: "btn primary", textContent: t("Save") });
  const form = make("form", { method: "dialog" }, label, save);
  form.addEventListener("submit", () => (save.value = input.value));
  return ask(title, form);
}

// A field that shows the places with these letters only, for long lists.
function filter(list) {
  if (list.children.length < LONG) return [];
  const field = make("input", { className: "input", type: "search", placeholder: t("Find a folder"), dir: "auto" });
  field.setAttribute("aria-label", t("Find a folder"));
  field.addEventListener("input", () => {
    const part = field.value.trim().toLocaleLowerCase();
    for (const one of list.children) one.hidden = !one.textContent.toLocaleLowerCase().includes(part);
  });
  // Enter takes the first place that is left.
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    list.querySelector("li:not([hidden]) button:enabled")?.click();
  });
  return [field];
}

async function choosePlace(item) {
  const places = [...tree.root().querySelectorAll(".folder")].filter((one) => one !== item && tree.fits(item, one));
  const choice = (value, words, look, here) => {
    const button = make("button", { value, textContent: words, dir: "auto", disabled: here });
    if (here) button.setAttribute("aria-current", "true");
    return make("li", { className: look }, button);
  };
  const home = tree.homeOf(item);
  const list = make("ul", { className: "places" },
    choice("top", tree.isFolder(item) ? t("Top level") : t("No folder"), "", !home),
    ...places.map((one) => choice(tree.idOf(one), tree.nameOf(one), tree.homeOf(one) ? "inner" : "", one === home)),
    ...(tree.isFolder(item) ? [] : [choice("new", `+ ${t("New folder…")}`, "new", false)]),
  );
  const chosen = await ask(t("Move “{name}” to", { name: tree.saidOf(item) }), make("form", { method: "dialog" }, ...filter(list), list));
  const folder = chosen === "new" ? await create(null) : places.find((one) => tree.idOf(one) === chosen);
  if (chosen === "top") tree.move(item, null);
  else if (folder) tree.move(item, folder);
  tree.focus(item);
}

async function rename(item) {
  const [folder, id, was] = [tree.isFolder(item), tree.idOf(item), tree.nameOf(item)];
  const name = await askName(folder ? t("Rename folder") : t("Rename feed"), was);
  if (name === null) return;
  const url = folder ? `/folders/${id}/rename` : `/feeds/${id}/rename`;
  const show = (words) => {
    for (const link of tree.root().querySelectorAll(`a[data-${folder ? "folder" : "feed"}="${id}"]`)) {
      link.querySelector("span").textContent = words;
    }
  };
  const send = (words) => counts.own(post(url, { name: words }));
  show(name);
  try {
    const done = await send(name);
    show(done.name);
    const before = done.before ?? was;
    toast(done.text, () => send(before).then((answer) => show(answer.name), (failure) => toast(failure.message)));
  } catch (failure) {
    show(was);
    toast(t("Nothing changed. {why}", { why: failure.message }));
  }
}

function markRead(item) {
  const folder = tree.isFolder(item);
  const feeds = folder ? [...item.querySelectorAll("a[data-feed]")].map((a) => a.dataset.feed) : [tree.idOf(item)];
  const unread = list.all().filter((row) => feeds.includes(row.dataset.feed) && !rows.isRead(row));
  rows.paintMany(unread, true);
  const stream = `${folder ? "folder" : "feed"}/${tree.idOf(item)}`;
  tree.settle(["/folders/read", { stream }], () => rows.paintMany(unread, false));
}

async function create(parent) {
  const name = await askName(parent ? t("New folder in “{name}”", { name: tree.saidOf(parent) }) : t("New folder"), "");
  if (!name) return null;
  try {
    const done = await counts.own(post("/folders", { name, parent: tree.idOf(parent) }));
    return show(done, name, parent);
  } catch (failure) {
    toast(t("Nothing changed. {why}", { why: failure.message }));
    return null;
  }
}

function show(done, name, parent) {
  const link = make("a", { href: `/read/folder/${done.id}` }, make("span", { textContent: name, dir: "auto" }), make("b"));
  Object.assign(link.dataset, { stream: "", folder: done.id });
  const fold = make("summary", {}, picture("chevron"));
  const item = make("li", { className: "folder" }, link, make("details", { open: true }, fold, make("ul")));
  fold.setAttribute("aria-label", t("Feeds in {name}", { name: tree.saidOf(item) }));
  item.dataset.id = done.id;
  const line = tree.kin(item, parent);
  if (line.length) line.at(-1).after(item);
  else tree.listOf(parent).prepend(item);
  toast(done.text);
  return item;
}

function unsubscribe(item) {
  const all = [...tree.root().querySelectorAll(`a[data-feed="${tree.idOf(item)}"]`)].map((a) => a.parentElement);
  const places = all.map((one) => [one, one.parentElement, one.nextElementSibling]);
  for (const one of all) one.remove();
  tree.recount();
  tree.settle([`/feeds/${tree.idOf(item)}/unsubscribe`, {}], () => {
    for (const [one, list, next] of places) list.insertBefore(one, next?.parentElement === list ? next : null);
    tree.recount();
  });
}

function dissolve(item) {
  const [list, behind, home] = [item.parentElement, item.nextElementSibling, tree.homeOf(item)];
  const inside = [...tree.listOf(item).children];
  for (const one of inside) {
    if (tree.isFolder(one)) item.before(one);
    else if (!tree.elsewhere(one, null)) tree.root().append(one);
  }
  item.remove();
  tree.recount();
  tree.settle([`/folders/${tree.idOf(item)}/delete`, {}], () => {
    tree.listOf(item).append(...inside);
    list.insertBefore(item, behind?.parentElement === list ? behind : null);
    tree.recount();
  });
  const next = home ?? tree.root().firstElementChild;
  if (next) tree.focus(next);
}

export function start(place) {
  // Fill the menu when its own button opens it: for the item beside it.
  summary.addEventListener("click", () => menu.open || fill(tree.itemOf(holder)));
  menu.addEventListener("toggle", () => {
    if (!menu.open) return;
    // Below the last feeds there is no room: the menu would push the foot of the tree up.
    const foot = document.querySelector(".tree-foot")?.getBoundingClientRect().top ?? innerHeight;
    box.classList.toggle("up", summary.getBoundingClientRect().bottom + box.offsetHeight > foot);
    box.scrollIntoView({ block: "nearest" });
  });
  for (const kind of ["pointerover", "focusin"]) {
    place.addEventListener(kind, (event) => attach(tree.itemOf(event.target)));
  }
  place.addEventListener("contextmenu", (event) => {
    const item = tree.itemOf(event.target);
    if (!item || event.shiftKey || holder.contains(event.target)) return;
    event.preventDefault();
    open(item);
  });
}
