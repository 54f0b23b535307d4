// Shortcuts of the tree: moving, opening and closing folders, the next folder. Loads with the first of them.
import { register } from "../actions.js";
import { say } from "../toast.js";
import { t } from "../words.js";

const pane = () => document.querySelector(".pane-tree");
const links = () => [...document.querySelectorAll(".tree a[href]:not(.menu a)")].filter((a) => a.checkVisibility());
const focused = () => document.activeElement?.closest(".tree a[href]") ?? null;
const current = () => document.querySelector(".tree a[aria-current]");

// A hidden tree is shown again; on a screen without room for it, there is nothing to move in.
function shown() {
  document.querySelector(".reader")?.classList.remove("no-tree", "full");
  return pane()?.checkVisibility() ?? false;
}

function step(by) {
  if (!shown()) return false;
  const all = links();
  const at = all.indexOf(focused() ?? current());
  all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by]?.focus();
}

function open() {
  if (!focused()) return false;
  focused().click();
}

function fold() {
  const folder = shown() && (focused() ?? current())?.closest(".folder");
  const box = folder && folder.querySelector(":scope > details:not(.menu)");
  if (!box) return false;
  if (box.contains(document.activeElement)) folder.querySelector(":scope > a").focus();
  box.open = !box.open;
}

const own = () => current()?.closest("[data-folder]") ?? current()?.closest(".folder")?.querySelector(":scope > a[data-folder]");

function folder(by) {
  if (!pane()) return false;
  const all = [...document.querySelectorAll(".tree a[data-folder]")];
  const at = all.indexOf(own());
  // Wrap around: the first follows the last.
  const ring = [...all.slice(at + 1), ...all.slice(0, Math.max(0, at))];
  if (by < 0) ring.reverse();
  const link = ring.find((one) => Number(one.dataset.unread) > 0);
  if (link) link.click();
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
