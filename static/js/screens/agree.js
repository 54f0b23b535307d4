// Rows of the list as another tab or device has left them. Loaded when counts first move by themselves.
import { register } from "../actions.js";
import { forget, others } from "../counts.js";
import * as list from "../list.js";
import { post } from "../net.js";
import { asked, waiting } from "../queue.js";
import { isRead, paintMany } from "../rows.js";

// Entries in one question.
const MOST = 500;
// Milliseconds that the next question waits for the answer to this one.
const PATIENCE = 30000;

const key = (row) => `read ${row.dataset.id}`;
const rowsBox = () => document.getElementById("rows");
let asking = Promise.resolve();

function late() {
  return new Promise((resolve, fail) => setTimeout(fail, PATIENCE));
}

// What is marked here before the answer is there is newer than that.
async function ask(some) {
  const box = rowsBox();
  const rows = some.filter((row) => !waiting.has(key(row)));
  if (!rows.length) return;
  for (const row of rows) asked.add(key(row));
  try {
    const { read } = await Promise.race([post("/entries/states", { entry: rows.map((row) => row.dataset.id) }), late()]);
    // Another list was drawn, before the answer or after it: it is asked for anew.
    if (rowsBox() !== box) return again(rows), agree();
    for (const row of rows) if (asked.has(key(row))) follow(row, read[row.dataset.id]);
  } finally {
    asked.clear();
  }
}

function follow(row, read) {
  if (read !== !isRead(row)) return;
  paintMany([row], read);
  // Scrolling past does not take back what somebody has kept unread elsewhere.
  if (!read) row.dataset.kept = "";
}

function again(rows) {
  for (const row of rows) others.add(row.dataset.feed);
}

async function askAll() {
  const rows = list.all().filter((row) => others.has(row.dataset.feed));
  others.clear();
  for (let at = 0; at < rows.length; at += MOST) {
    const some = rows.slice(at, at + MOST);
    // The next time counts are asked for is soon enough for what was not answered.
    await ask(some).catch(() => (again(some), forget()));
  }
}

// One question after the other: an answer that is overtaken would leave the older state standing.
function agree() {
  asking = asking.then(askAll);
}

register({ agree });
