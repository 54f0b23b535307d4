// Updates rows that another tab or device has marked. Loads when counts first change without an action here.
import { register } from "../actions.js";
import { forget, others } from "../counts.js";
import * as list from "../list.js";
import { post } from "../net.js";
import { asked, waiting } from "../queue.js";
import { isRead, paintMany } from "../rows.js";

// Entries in one request.
const MOST = 500;
// Milliseconds that the next request waits for the answer to this one.
const PATIENCE = 30000;

const key = (row) => `read ${row.dataset.id}`;
const rowsBox = () => document.getElementById("rows");
let asking = Promise.resolve();

function late() {
  return new Promise((resolve, fail) => setTimeout(fail, PATIENCE));
}

// Marks made here before the answer arrives are newer than the answer.
async function ask(some) {
  const box = rowsBox();
  const rows = some.filter((row) => !waiting.has(key(row)));
  if (!rows.length) return;
  for (const row of rows) asked.add(key(row));
  try {
    const { read } = await Promise.race([post("/entries/states", { entry: rows.map((row) => row.dataset.id) }), late()]);
    // Another list was rendered before or after the answer: request its states anew.
    if (rowsBox() !== box) return again(rows), agree();
    for (const row of rows) if (asked.has(key(row))) follow(row, read[row.dataset.id]);
  } finally {
    asked.clear();
  }
}

function follow(row, read) {
  if (read !== !isRead(row)) return;
  paintMany([row], read);
  // Scrolling past must not mark entries as read that were kept unread elsewhere.
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
    // Failed requests wait until counts are requested next.
    await ask(some).catch(() => (again(some), forget()));
  }
}

// One request at a time: answers in the wrong order would leave the older state.
function agree() {
  asking = asking.then(askAll);
}

register({ agree });
