// Actions of keys and buttons in the reader; the names are those of the shortcut table.
import { act } from "./actions.js";
import * as counts from "./counts.js";
import * as list from "./list.js";
import * as panes from "./panes.js";
import * as queue from "./queue.js";
import * as rows from "./rows.js";
import { remember, say } from "./toast.js";
import * as treeview from "./treeview.js";
import { t, tn } from "./words.js";

const article = () => document.getElementById("article");
const rowsBox = () => document.getElementById("rows");

async function step(by, open) {
  const all = list.all();
  const box = rowsBox();
  const at = all.indexOf(rows.current());
  let next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
  // From the row selected now: keys pressed while more rows loaded count as steps too.
  if (!next && by > 0 && (await list.more())) next = list.all()[list.all().indexOf(rows.current()) + 1];
  if (!panes.stays(box)) return;
  if (!next) return say(by > 0 ? t("This is the last entry") : t("This is the first entry"));
  if (open) return panes.visit(next);
  rows.select(next);
  next.querySelector("a").focus({ preventScroll: true });
}

// Rows below first, as far as there may be any; then skipped rows above; then another feed.
async function nextUnread() {
  const unread = (row) => !rows.isRead(row);
  const box = rowsBox();
  const at = list.all().indexOf(rows.current());
  let row = list.all().slice(at + 1).find(unread);
  while (!row && !document.querySelector("#rows .divider") && (await list.more())) row = list.all().slice(at + 1).find(unread);
  // The user has moved on meanwhile.
  if (!panes.stays(box)) return;
  row ??= list.all().slice(0, Math.max(0, at)).find(unread);
  if (row) return panes.visit(row);
  if (await feed(1)) await nextUnread();
}

async function page(by) {
  const whole = panes.view() === "expanded" && !panes.openId();
  const pane = whole ? list.pane() : article();
  const before = pane.scrollTop;
  if (whole) list.hand();
  pane.scrollBy({ top: by * (pane.clientHeight - 80) });
  if (by > 0 && (Math.ceil(before + pane.clientHeight) >= pane.scrollHeight - 4 || !(whole || panes.openId()))) await nextUnread();
}

export async function feed(by) {
  await all();
  const links = treeview.links("a[data-feed]");
  const at = links.findIndex((link) => link.hasAttribute("aria-current"));
  // Wrap around: the first follows the last.
  const ring = [...links.slice(at + 1), ...links.slice(0, Math.max(0, at))];
  if (by < 0) ring.reverse();
  const link = ring.find((one) => Number(one.dataset.unread) > 0 && one.dataset.feed !== links[at]?.dataset.feed);
  if (!link) return say(t("No other feed has unread entries")), false;
  return panes.go(link.href);
}

function toggleRead(id = panes.chosen()) {
  const row = id && list.byId(id);
  const button = id && !row && article().querySelector(`form[data-act="read"][data-id="${CSS.escape(id)}"] button`);
  if (row ? !row.dataset.feed : !button) return false;
  const read = row ? !rows.isRead(row) : button.getAttribute("aria-pressed") === "true";
  rows.setAny(id, read);
  if (row && !read) row.dataset.kept = "";
  remember(() => void rows.setAny(id, !read));
  say(read ? t("Marked as read") : t("Marked as unread"));
}

function toggleStar(id = panes.chosen()) {
  const button = id && (list.byId(id) ?? article()).querySelector(`form[data-act="star"][data-id="${CSS.escape(id)}"] button`);
  if (!button) return;
  const on = button.getAttribute("aria-pressed") !== "true";
  rows.setStar(id, on);
  remember(() => rows.setStar(id, !on));
  say(on ? t("Starred") : t("Star removed"));
}

const original = () => panes.inText((place) => place.querySelector("a.original")?.click());
const openClose = () => (panes.isOpen() ? panes.close() : panes.open(rows.current()));

const inList = {
  next: () => step(1, true),
  previous: () => step(-1, true),
  down: () => step(1, false),
  up: () => step(-1, false),
  "next-unread": nextUnread,
  page: panes.when("article", () => page(1)),
  "page-back": panes.when("article", () => page(-1)),
  open: openClose,
  original: panes.when("article", original),
  read: () => toggleRead(),
  star: () => toggleStar(),
};

export const actions = {
  ...Object.fromEntries(Object.entries(inList).map(([word, action]) => [word, panes.when("stream", action)])),
  close: panes.when("stream", () => panes.close()),
  "go-all": () => panes.go("/read/all"),
  "go-today": () => panes.go("/read/today"),
  "go-starred": () => panes.go("/read/starred"),
  "go-recent": () => panes.go("/read/recent"),
};

// Their scripts may have to load first.
const sent = (form, part = form) => (part.toggleAttribute("data-sent", true), act(`${form.dataset.act}-send`));

// Handles forms that also work without scripts; data-act names the action.
const forms = {
  read: (form) => toggleRead(form.dataset.id),
  star: (form) => toggleStar(form.dataset.id),
  tag: sent,
  share: (form) => sent(form),
  "full-text": () => act("full-text"),
  "mark-all": () => act("mark-all"),
  view: sent,
  refresh: () => act("refresh"),
};

function submitted(event) {
  const act = forms[event.target.dataset.act];
  if (!act) return;
  event.preventDefault();
  act(event.target, event.submitter);
}

function clicked(event) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest("a");
  const row = link?.closest(".row");
  if (link?.matches(".out")) return rows.setRead(row, true);
  if (row && link.matches("h2 a, .in, .whole-more")) panes.open(row, { pointed: event.detail > 0 });
  else if (link?.closest("#more")) list.more();
  else if (link?.matches("[data-stream]")) panes.go(link.href);
  else if (link?.matches("[data-close]")) panes.close();
  else return;
  event.preventDefault();
}

function newer(count) {
  const bar = document.getElementById("newbar");
  if (!bar) return;
  bar.hidden = !count;
  bar.textContent = tn("{n} new", "{n} new", count);
}

// Reloads the tree.
let grown;
export const grows = (promise) => grown(promise);
export const grow = () => new Promise((done) => (grown = done, act("grow")));

// Of a large tree, a page has a part; the keys and tools that go through all feeds need the others, too.
let whole = null;
export const isWhole = () => whole;
export const all = async () => treeview.links(".rest").length && (await (whole ??= queue.send().then(grow)));

// The script for swipes loads with the first touch, which goes on there.
function touched({ target, touches }) {
  const [{ clientX, clientY }] = touches;
  const go = () => target.dispatchEvent(new CustomEvent("touched", { bubbles: true, detail: { clientX, clientY } }));
  import(panes.reader().dataset.touch).then(go, () => addEventListener("touchstart", touched, { once: true, passive: true }));
}

export function start() {
  addEventListener("touchstart", touched, { once: true, passive: true });
  document.addEventListener("submit", submitted);
  document.addEventListener("click", clicked);
  list.start();
  rows.start();
  panes.start();
  counts.start(newer, grow, queue.settle);
}
