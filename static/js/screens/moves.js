// Moving items in the tree: drag and drop, cut and paste. Loads when the pointer or focus gets near the tree.
import * as menu from "../treemenu.js";
import * as keys from "../treekeys.js";
import * as tree from "../treemove.js";
import * as view from "../treeview.js";
import { say } from "../toast.js";
import { t } from "../words.js";

const OPEN_AFTER = 600;
const place = document.getElementById("tree");
let dragged = null;
let spot = null;
let cut = null;
let timer = 0;

function clear() {
  clearTimeout(timer);
  for (const item of tree.root().querySelectorAll(".drop-into, .drop-before, .drop-after")) {
    item.classList.remove("drop-into", "drop-before", "drop-after");
  }
}

function show(next) {
  if (spot && next && spot.item === next.item && spot.zone === next.zone) return;
  clear();
  spot = next;
  if (!next) return;
  next.item.classList.add(`drop-${next.zone}`);
  const details = next.zone === "into" && view.boxOf(next.item);
  if (details && !details.open) timer = setTimeout(view.fold, OPEN_AFTER, true, next.item);
}

function part(event, item) {
  const box = tree.linkOf(tree.shownOf(item)).getBoundingClientRect();
  return (event.clientY - box.top) / box.height;
}

function beside(item, low) {
  const folder = tree.homeOf(item);
  if (!tree.fits(dragged, folder)) return null;
  const line = tree.kin(dragged, folder);
  const after = low ? item : (line[line.indexOf(item) - 1] ?? null);
  return { item, zone: low ? "after" : "before", folder, after };
}

// Into a folder or between two items of one kind; folders and feeds don't mix.
function where(event) {
  const item = tree.itemOf(event.target);
  if (!item || item === dragged || dragged.contains(item)) return null;
  const at = part(event, item);
  if (!tree.isFolder(dragged)) {
    return tree.isFolder(item) ? { item, zone: "into", folder: item } : beside(item, at > 0.5);
  }
  if (!tree.isFolder(item)) return null;
  const inside = at > 0.3 && at < 0.7 && tree.fits(dragged, item);
  return inside ? { item, zone: "into", folder: item } : beside(item, at > 0.5);
}

place.addEventListener("dragstart", (event) => {
  dragged = tree.itemOf(event.target);
  if (!dragged) return;
  event.dataTransfer.effectAllowed = "move";
  dragged.classList.add("dragged");
});
place.addEventListener("dragover", (event) => {
  if (!dragged) return;
  show(where(event));
  if (!spot) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "move";
});
place.addEventListener("drop", (event) => {
  if (!dragged || !spot) return;
  event.preventDefault();
  tree.move(dragged, spot.folder, spot.after);
  dragged.classList.remove("dragged");
  dragged = null;
});
// Even after Esc, and after a drop outside all targets.
place.addEventListener("dragend", () => {
  clear();
  if (dragged) say(t("Not moved"));
  dragged?.classList.remove("dragged");
  dragged = spot = null;
});

function release() {
  cut?.classList.remove("dragged");
  cut = null;
}

function take(item) {
  release();
  cut = item;
  item.classList.add("dragged");
  say(t("“{name}” is ready to move. Go to its new place and press Ctrl+V, or press Esc to cancel.", { name: tree.saidOf(item) }));
}

function paste(target) {
  const item = cut;
  const folder = target && tree.isFolder(target) && tree.fits(item, target) ? target : target && tree.homeOf(target);
  if (target && (target === item || item.contains(target) || !tree.fits(item, folder))) return say(t("Can't move it here"));
  release();
  const behind = target && target !== folder && tree.isFolder(target) === tree.isFolder(item) ? target : undefined;
  tree.move(item, folder, behind);
  tree.focus(item);
}

place.addEventListener("keydown", (event) => {
  const item = tree.itemOf(event.target);
  const command = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey ? event.key.toLowerCase() : "";
  if (event.key === "Escape" && cut) {
    release();
    say(t("Not moved"));
  } else if (command === "x" && item) take(item);
  // "All entries" stands for the top level.
  else if (command === "v" && cut && (item || event.target.matches("a[data-all]"))) paste(item);
  else return;
  event.preventDefault();
});

menu.start(place);
keys.start(place);
menu.attach(tree.itemOf(document.activeElement) ?? tree.itemOf(place.querySelector("#feeds :hover")));
place.dataset.ready = "";
