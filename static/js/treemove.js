// Moves feeds and folders in the tree: shown at once, sent, undone by "Undo" or if the server rejects the move.
// Nodes are moved, never recreated, so open folders stay open and nothing scrolls.
import * as counts from "./counts.js";
import { isolate } from "./names.js";
import { post } from "./net.js";
import { toast } from "./toast.js";
import * as view from "./treeview.js";
import { t } from "./words.js";

export const root = () => view.root();
export const linkOf = (item) => view.linkOf(item);
export const shownOf = (item) => view.shownOf(item);
export const isFolder = (item) => item.classList.contains("folder");
export const idOf = (item) => (item ? (linkOf(item).dataset.folder ?? linkOf(item).dataset.feed) : "");
export const nameOf = (item) => linkOf(item).querySelector("span").textContent;
// The name for a sentence.
export const saidOf = (item) => isolate(nameOf(item));
export const homeOf = (item) => item.parentElement.closest(".folder");
export const listOf = (folder) => (folder ? view.listOf(folder) : root());
export const itemOf = (node) => view.keptOf(node) ?? null;
export const focus = (item) => view.focus(linkOf(item));
export const kin = (item, folder) =>
  [...listOf(folder).children].filter((one) => one !== item && isFolder(one) === isFolder(item));
export const hasFolders = (item) => item.querySelector(".folder") !== null;

// A folder moves to the top level or into a top-level folder, never into itself.
export function fits(item, folder) {
  if (!isFolder(item) || !folder) return true;
  return !item.contains(folder) && !homeOf(folder) && !hasFolders(item);
}

function total(folder) {
  const unread = new Map();
  for (const link of folder.querySelectorAll("a[data-feed]")) {
    unread.set(link.dataset.feed, Number(link.dataset.unread ?? 0));
  }
  return [...unread.values()].reduce((sum, one) => sum + one, 0);
}

export function recount() {
  for (const folder of root().querySelectorAll("li.folder")) counts.write(linkOf(folder), total(folder));
}

// The default position: by name if its neighbors are sorted, else at the end.
function belongs(item, line) {
  const order = (a, b) => nameOf(a).localeCompare(nameOf(b));
  const sorted = line.every((one, place) => !place || order(line[place - 1], one) <= 0);
  const behind = sorted ? line.findLast((one) => order(one, item) <= 0) : line.at(-1);
  return behind ?? null;
}

function put(item, folder, after) {
  const line = kin(item, folder);
  const behind = after === undefined ? belongs(item, line) : after;
  if (behind) behind.after(item);
  else if (line.length || isFolder(item)) listOf(folder).insertBefore(item, line[0] ?? listOf(folder).firstChild);
  else listOf(folder).append(item);
}

export function elsewhere(item, folder) {
  if (isFolder(item)) return false;
  const others = [...root().querySelectorAll(`a[data-feed="${idOf(item)}"]`)].filter((a) => !item.contains(a));
  return folder ? others.some((a) => homeOf(a.parentElement) === folder) : others.length > 0;
}

// Shows a change now; returns the function that undoes it.
function arrange(item, folder, after) {
  const [list, next] = [item.parentElement, item.nextElementSibling];
  const stays = folder !== homeOf(item) && elsewhere(item, folder);
  if (stays) item.remove();
  else put(item, folder, after);
  recount();
  return () => {
    list.insertBefore(item, next?.parentElement === list ? next : null);
    recount();
  };
}

function sent(item, folder, after) {
  const behind = after === undefined ? "" : after ? idOf(after) : 0;
  if (isFolder(item)) return [`/folders/${idOf(item)}/move`, { parent: idOf(folder), after: behind }];
  const source = idOf(homeOf(item));
  return ["/folders/place", { feed: idOf(item), source, target: idOf(folder), after: behind }];
}

// after: an item, null for the first position, undefined for the default position.
export async function move(item, folder, after) {
  const request = sent(item, folder, after);
  const words = folder
    ? t("“{name}” moved to “{folder}”", { name: saidOf(item), folder: saidOf(folder) })
    : t("“{name}” moved to the top level", { name: saidOf(item) });
  const focused = shownOf(item).contains(document.activeElement);
  const back = arrange(item, folder, after);
  if (focused) focus(item);
  await settle(request, back, words);
}

// Sends a change that is shown already; "Undo" restores the old state here and on the server.
export async function settle([url, fields], back, words) {
  try {
    const done = await counts.own(post(url, fields));
    const drawn = root();
    toast(words ?? done.text, done.undo && (() => undo(done.undo, back, drawn)));
    counts.refresh();
    return done;
  } catch (failure) {
    back();
    toast(t("Nothing changed. {why}", { why: failure.message }));
    return null;
  }
}

// A tree rendered anew meanwhile lacks the nodes to restore, so render it again.
async function undo(token, back, drawn) {
  const answer = post("/undo", { token });
  const done = await (root() === drawn ? counts.own(answer) : answer);
  back();
  counts.refresh();
  return done.text;
}
