// Shortcuts of the tree: moving, opening and closing folders, the next folder. Loads with the first of them.
import { register } from "../actions.js";
import { go } from "../panes.js";
import { all } from "../reader.js";
import { show } from "../side.js";
import { say } from "../toast.js";
import * as keys from "../treekeys.js";
import * as view from "../treeview.js";
import { t } from "../words.js";

const pane = () => document.querySelector(".pane-tree");
const current = () => view.links("a[aria-current]").at(-1) ?? null;

// A rail becomes a tree again, and a drawer opens.
function shown() {
  document.querySelector(".reader")?.classList.remove("full");
  return show();
}

function step(by) {
  if (!shown()) return false;
  keys.step(by, keys.focused() ?? current());
}

function open() {
  if (!keys.focused()) return false;
  document.activeElement.click();
}

function fold() {
  const link = shown() && (keys.focused() ?? current());
  const folder = link && link.closest(".folder");
  if (!folder) return false;
  view.fold(!view.boxOf(folder).open, folder);
}

const own = () => current()?.closest("[data-folder]") ?? current()?.closest(".folder")?.querySelector(":scope > a[data-folder]");

async function folder(by) {
  if (!pane()) return false;
  await all();
  const folders = view.links("a[data-folder]");
  const at = folders.indexOf(own());
  // Wrap around: the first follows the last.
  const ring = [...folders.slice(at + 1), ...folders.slice(0, Math.max(0, at))];
  if (by < 0) ring.reverse();
  const link = ring.find((one) => Number(one.dataset.unread) > 0);
  if (link) go(link.href);
  else say(t("No other folder has unread entries"));
}

register({
  "tree-next": () => step(1),
  "tree-previous": () => step(-1),
  "tree-open": open,
  "tree-expand": fold,
  "next-folder": () => folder(1),
  "previous-folder": () => folder(-1),
});
