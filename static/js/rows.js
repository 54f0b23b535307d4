// Rows of the list and their states. A row never moves or disappears while the user is on the page.
import { move, refresh } from "./counts.js";
import * as list from "./list.js";
import * as queue from "./queue.js";
import { t } from "./words.js";

export const current = () => list.all().find((row) => row.hasAttribute("aria-current"));
// Stars changed here, by id, which the server may not know yet when it sends an entry.
const stars = {};
export const isRead = (row) => row.classList.contains("is-read");

function show(row, read) {
  row.classList.toggle("is-read", read);
  row.querySelector(".state").textContent = read ? "" : t("Unread: ");
  pressed("read", row.dataset.id, !read, read);
}

function paint(row, read) {
  if (isRead(row) === read) return false;
  show(row, read);
  move(row.dataset.feed, read ? -1 : 1);
  return true;
}

function pressed(act, id, on, read) {
  const pick = `form[data-act="${act}"][data-id="${CSS.escape(id)}"] button`;
  const here = list.byId(id);
  for (const button of new Set([...document.querySelectorAll(pick), ...(here?.querySelectorAll(pick) ?? [])])) {
    button.setAttribute("aria-pressed", on);
    // The key at the end of the tooltip stays.
    if (act === "read") button.title = (read ? t("Mark as unread") : t("Mark as read")) + / \([^()]*\)$|$/.exec(button.title)[0];
  }
}

// An article requested before its marks arrived is shown with this page's marks.
export function sync(id) {
  const row = list.byId(id);
  if (row) show(row, isRead(row));
  if (id in stars) put("star", id, stars[id]);
}

// A remembered row may have been rendered again; return the current one.
const now = (row) => list.byId(row.dataset.id) ?? row;

// Shown at once, sent in batches, undone with a message if the server rejects the change.
export function setRead(row, read) {
  if (!row || !paint(now(row), read)) return false;
  queue.put("read", row.dataset.id, read);
  return true;
}

// For an entry outside the list, the server reports the change of counts.
export function setAny(id, read) {
  const row = list.byId(id);
  if (row) return setRead(row, read);
  pressed("read", id, !read, read);
  queue.put("read", id, read);
  refresh();
}

export function setStar(id, on) {
  put("star", id, on);
  queue.put("star", id, on);
}

// A list loaded while marks are pending doesn't include them; the counts do.
export function again() {
  for (const [key, value] of queue.waiting) {
    const [kind, id] = key.split(" ");
    const row = list.byId(id);
    if (kind === "star") put(kind, id, value);
    else if (row) show(row, value);
  }
}

// After a mass action on the server: only show it, nothing to send.
export function paintMany(some, read) {
  for (const row of some) {
    queue.asked.delete(`read ${row.dataset.id}`);
    show(now(row), read);
  }
}

// Rows around it stay in sight too, unless it is pointed at: then it doesn't move away from the pointer.
export function select(row, place = "nearest", pointed = false) {
  const before = current();
  if (before && before !== row) before.removeAttribute("aria-current");
  if (!row) return;
  // From here on the server's answer counts, unless it has not got this page's star yet.
  if (!queue.waiting.has(`star ${row.dataset.id}`)) delete stars[row.dataset.id];
  list.reveal(row);
  row.setAttribute("aria-current", "true");
  row.style.scrollMarginBlock = pointed ? 0 : "";
  row.scrollIntoView({ block: place });
}

function put(kind, id, value) {
  if (kind === "star") return pressed("star", id, (stars[id] = value));
  const row = list.byId(id);
  if (row) paint(row, value);
}

export function start() {
  queue.start(put);
}
