// Marks a list, or the part above or below an entry, as read. Loads with the first of these actions.
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

register({
  "mark-all": () => markMany(),
  "mark-above": () => markMany("above"),
  "mark-below": () => markMany("below"),
});
