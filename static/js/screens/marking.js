// Marks a list, or the part above or below an entry, as read; hides an entry. Loads with the first of these actions.
import { register } from "../actions.js";
import * as counts from "../counts.js";
import * as list from "../list.js";
import { post } from "../net.js";
import * as panes from "../panes.js";
import * as queue from "../queue.js";
import { feed } from "../reader.js";
import * as rows from "../rows.js";
import { say, toast } from "../toast.js";
import { t } from "../words.js";

// Marks the whole list, or the part above or below an entry.
async function markMany(part = "all") {
  const row = rows.current();
  if (part !== "all" && !row) return say(t("Select an entry first"));
  await queue.send();
  const { stream, snapshot } = list.pane().dataset;
  const box = document.getElementById("rows");
  const all = list.all();
  const at = all.indexOf(row);
  const some = { all, above: all.slice(0, at), below: all.slice(at + 1) }[part].filter((one) => !rows.isRead(one));
  try {
    const done = await post(`/read/mark-${part}`, { stream, snapshot, ...(part === "all" ? {} : { entry: row.dataset.id }) });
    rows.paintMany(some, true);
    toast(done.text, done.undo && (() => unmark(done.undo, some)));
    await counts.refresh();
    if (part === "all" && panes.reader().dataset.after && panes.stays(box)) await feed(1);
  } catch (failure) {
    toast(failure.message);
  }
}

async function unmark(token, unread) {
  await post("/undo", { token });
  rows.paintMany(unread, false);
  counts.refresh();
}

// Lists in which a hidden entry isn't shown. Searches, stars and tags still find it.
const LEAVES = /^(all|today|following|folder|feed)\b/;

async function hide() {
  const id = panes.chosen();
  const row = id && list.byId(id);
  if (!id || (row && !row.dataset.feed)) return say(id ? t("This entry can't be hidden") : t("Select an entry first"));
  await queue.send();
  const box = document.getElementById("rows");
  const was = row && rows.isRead(row);
  try {
    const done = await post("/entries/hide", { entry: id, on: 1 });
    const back = row && panes.stays(box) && leave(row, id);
    if (!row) panes.close();
    toast(done.text, done.undo && (() => bring(done.undo, row, was, back)));
    counts.refresh();
  } catch (failure) {
    toast(failure.message);
  }
}

// Removes a row, and selects the next one; returns what puts it back.
function leave(row, id) {
  rows.paintMany([row], true);
  if (!LEAVES.test(list.pane().dataset.stream)) return null;
  const all = list.all();
  const at = all.indexOf(row);
  const near = all[at + 1] ?? all[at - 1];
  list.reveal(row);
  const item = row.parentNode;
  const after = item.nextSibling;
  if (panes.openId() === id) panes.close();
  row.removeAttribute("aria-current");
  item.remove();
  list.all();
  rows.select(near);
  return () => {
    if (!item.isConnected && after?.isConnected) after.before(item);
    else panes.go(panes.stream());
  };
}

async function bring(token, row, was, back) {
  await post("/undo", { token });
  if (row) rows.paintMany([row], was);
  back?.();
  counts.refresh();
}

register({
  "mark-all": () => markMany(),
  "mark-above": () => markMany("above"),
  "mark-below": () => markMany("below"),
  hide,
});
