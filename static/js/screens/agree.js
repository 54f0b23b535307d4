// Rows of the list as another tab or device has left them. Loaded when counts first move by themselves.
import { register } from "../actions.js";
import { others } from "../counts.js";
import * as list from "../list.js";
import { post } from "../net.js";
import * as queue from "../queue.js";
import { isRead, paintMany } from "../rows.js";

// Entries in one question.
const MOST = 500;

// What is marked here while the answer is on its way is newer than that.
async function ask(rows) {
  const before = new Map(rows.map((row) => [row, isRead(row)]));
  const { read } = await post("/entries/states", { entry: rows.map((row) => row.dataset.id) });
  const ours = (row) => isRead(row) !== before.get(row) || queue.waiting.has(`read ${row.dataset.id}`);
  for (const row of rows) {
    const now = read[row.dataset.id];
    if (now === !before.get(row) && !ours(row)) paintMany([row], now);
  }
}

async function agree() {
  const rows = list.all().filter((row) => others.has(row.dataset.feed));
  others.clear();
  // The next time counts move is soon enough for what was not answered.
  for (let at = 0; at < rows.length; at += MOST) await ask(rows.slice(at, at + MOST)).catch(() => {});
}

register({ agree });
