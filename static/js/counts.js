// Unread counts in the tree, the title and the list's head: moved at once by what is done here, and
// set right by the server once a minute.
import { get } from "./net.js";

const EVERY = 60000;
let etag = null;
let onNewer = () => {};

function write(link, count) {
  const number = link.querySelector("b");
  if (!number) return;
  number.textContent = count > 0 ? count : "";
  link.dataset.unread = count;
  link.classList.toggle("has", count > 0);
}

function add(link, delta) {
  write(link, Math.max(0, Number(link.dataset.unread ?? 0) + delta));
}

export function move(feed, delta) {
  const folders = new Set();
  for (const link of document.querySelectorAll(`.tree a[data-feed="${feed}"]`)) {
    add(link, delta);
    for (let at = link.closest(".folder"); at; at = at.parentElement.closest(".folder")) folders.add(at);
  }
  for (const folder of folders) add(folder.querySelector(":scope > a"), delta);
  for (const link of document.querySelectorAll(".tree a[data-all]")) add(link, delta);
  title();
}

function title() {
  const all = document.querySelector(".tree a[data-all]");
  const here = document.querySelector(".tree a[aria-current]") ?? all;
  const unread = Number(here?.dataset.unread ?? 0);
  const sub = document.getElementById("unread");
  if (sub) sub.textContent = unread ? `${unread} unread` : "All read";
  const total = Number(all?.dataset.unread ?? 0);
  if (all) document.title = document.title.replace(/^(\(\d+\) )?/, total ? `(${total}) ` : "");
}

function show({ total, feeds, folders, newer }) {
  for (const link of document.querySelectorAll(".tree a[data-feed]")) write(link, feeds[link.dataset.feed] ?? 0);
  for (const link of document.querySelectorAll(".tree a[data-folder]")) write(link, folders[link.dataset.folder] ?? 0);
  for (const link of document.querySelectorAll(".tree a[data-all]")) write(link, total);
  title();
  onNewer(newer);
}

export async function refresh() {
  const rows = document.getElementById("rows");
  const url = `/api/counts${rows ? `?snapshot=${encodeURIComponent(rows.dataset.snapshot)}` : ""}`;
  const answer = await get(url, etag);
  if (!answer) return;
  etag = answer.etag;
  show(answer.data);
}

export function forget() {
  etag = null;
  title();
}

export function start(newer) {
  onNewer = newer;
  title();
  setInterval(() => document.hidden || refresh(), EVERY);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
}
