// What keys and buttons of the reading screen do; the words are those of the table of keys.
import * as counts from "./counts.js";
import { post } from "./net.js";
import * as panes from "./panes.js";
import * as rows from "./rows.js";
import * as tags from "./tags.js";
import { remember, say, toast } from "./toast.js";

const article = () => document.getElementById("article");

async function step(by, open) {
  const list = rows.all();
  const at = list.indexOf(rows.current());
  let next = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : at + by];
  if (!next && by > 0 && (await more())) next = rows.all()[list.length];
  if (!next) return say(by > 0 ? "This is the last entry" : "This is the first entry");
  if (open) return panes.open(next);
  rows.select(next);
  next.querySelector("a").focus({ preventScroll: true });
}

async function more() {
  const link = document.querySelector("#more a");
  if (link) await htmx.ajax("GET", link.getAttribute("hx-get"), { source: link });
  return link !== null;
}

async function nextUnread() {
  const list = rows.all();
  const after = list.slice(list.indexOf(rows.current()) + 1);
  const row = after.find((one) => !rows.isRead(one)) ?? list.find((one) => !rows.isRead(one) && one !== rows.current());
  if (row) return panes.open(row);
  if (await feed(1)) nextUnread();
}

async function page(by) {
  const pane = article();
  const before = pane.scrollTop;
  pane.scrollBy({ top: by * (pane.clientHeight - 80) });
  if (by > 0 && (Math.ceil(before + pane.clientHeight) >= pane.scrollHeight - 4 || !panes.openId())) await nextUnread();
}

async function feed(by) {
  const links = [...document.querySelectorAll(".tree a[data-feed]")].filter((link) => link.checkVisibility?.() ?? true);
  const at = links.findIndex((link) => link.hasAttribute("aria-current"));
  const ring = by > 0 ? links.slice(at + 1) : links.slice(0, at < 0 ? links.length : at).reverse();
  const link = ring.find((one) => Number(one.dataset.unread) > 0);
  if (!link) return say("No other feed has unread entries"), false;
  await panes.go(link.href);
  return true;
}

function toggleRead(id = panes.openId() ?? rows.current()?.dataset.id) {
  const row = id && rows.byId(id);
  if (!row) return;
  const read = !rows.isRead(row);
  rows.setRead(row, read);
  remember(() => rows.setRead(row, !read));
  say(read ? "Marked as read" : "Kept unread");
}

async function toggleStar(id = panes.openId() ?? rows.current()?.dataset.id) {
  const button = id && document.querySelector(`form[data-act="star"][data-id="${CSS.escape(id)}"] button`);
  if (!button) return;
  const on = button.getAttribute("aria-pressed") !== "true";
  if (await rows.setStar(id, on)) say(on ? "Starred" : "Star removed");
}

async function tagEntry() {
  if (!panes.openId() && rows.current()) await panes.open(rows.current());
  tags.open();
}

async function markAll() {
  await rows.send();
  const list = document.getElementById("rows");
  const unread = rows.all().filter((row) => !rows.isRead(row));
  try {
    const done = await post("/read/mark-all", { stream: list.dataset.stream, snapshot: list.dataset.snapshot });
    rows.paintMany(unread, true);
    toast(done.text, done.undo && (() => unmark(done.undo, unread)));
    await counts.refresh();
  } catch (failure) {
    toast(failure.message);
  }
}

async function unmark(token, unread) {
  try {
    await post("/undo", { token });
    rows.paintMany(unread.filter((row) => row.isConnected), false);
    say("Taken back");
    await counts.refresh();
  } catch (failure) {
    toast(failure.message);
  }
}

async function refresh() {
  const list = document.getElementById("rows");
  const button = document.querySelector('form[data-act="refresh"]');
  button?.classList.add("busy");
  try {
    const done = await post("/refresh", { stream: list?.dataset.stream ?? "all" });
    say(done.text);
    for (const pause of [700, 1300, 2000, 4000, 6000]) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      await counts.refresh();
    }
  } catch (failure) {
    toast(failure.message);
  } finally {
    button?.classList.remove("busy");
  }
}

const original = () => article()?.querySelector("a.original")?.click();
const openClose = () => (panes.openId() ? panes.close() : rows.current() && panes.open(rows.current()));

export const actions = {
  next: () => step(1, true),
  previous: () => step(-1, true),
  down: () => step(1, false),
  up: () => step(-1, false),
  "next-unread": nextUnread,
  page: () => page(1),
  "page-back": () => page(-1),
  "next-feed": () => feed(1),
  "previous-feed": () => feed(-1),
  open: openClose,
  close: () => panes.close(),
  original,
  read: () => toggleRead(),
  star: () => toggleStar(),
  "mark-all": markAll,
  refresh,
  tag: () => tagEntry(),
  "go-all": () => panes.go("/read/all"),
  "go-starred": () => panes.go("/read/starred"),
  tree: () => panes.reader().classList.toggle("no-tree"),
};

// Forms that work without a script are taken over here; what they would do is in data-act.
const forms = {
  read: (form) => toggleRead(form.dataset.id),
  star: (form) => toggleStar(form.dataset.id),
  tag: tags.send,
  "mark-all": markAll,
  refresh,
};

function submitted(event) {
  const act = forms[event.target.dataset.act];
  if (!act) return;
  event.preventDefault();
  act(event.target);
}

function clicked(event) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest("a");
  const row = link?.closest(".row");
  if (row && link.matches("h2 a")) panes.open(row);
  else if (link?.matches("[data-stream]")) panes.go(link.href);
  else if (link?.matches("[data-close]")) panes.close();
  else if (link?.matches("[data-step]")) step(Number(link.dataset.step), true);
  else return;
  event.preventDefault();
}

function newer(count) {
  const bar = document.getElementById("newbar");
  if (!bar) return;
  bar.hidden = !count;
  bar.textContent = `${count} new`;
}

function call(link, title) {
  const letter = /[\p{L}\p{N}]/u.exec(title)?.[0] ?? "•";
  link.querySelector("span[dir]").textContent = title;
  link.querySelector(".av").textContent = letter.toUpperCase();
}

// First entries of a new feed: the waiting list asks for itself until they are there. It is gone by
// then, so the tree is told here: what the feed is called, and how much of it is unread.
function arrivals() {
  let waited = document.getElementById("waiting");
  document.addEventListener("htmx:after:swap", () => {
    const waits = document.getElementById("waiting");
    const came = waited && !waits && document.getElementById("rows");
    waited = waits;
    if (!came) return;
    const link = document.querySelector(".tree a[aria-current]");
    const title = document.querySelector("#stream h1");
    if (link && title) call(link, title.textContent);
    counts.refresh();
  });
}

export function start() {
  document.addEventListener("submit", submitted);
  document.addEventListener("click", clicked);
  arrivals();
  rows.start();
  panes.start();
  counts.start(newer, rows.send);
}
