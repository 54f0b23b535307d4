// Reloads the tree, whose feeds have changed elsewhere or came in part. Loads with the first change.
import { register } from "../actions.js";
import * as counts from "../counts.js";
import * as list from "../list.js";
import * as panes from "../panes.js";
import { grows, isWhole } from "../reader.js";
import * as treeview from "../treeview.js";

// Not while the user is dragging or using a menu, and never by an error.
function leave(event) {
  const { target, response } = event.detail.ctx;
  if (target?.matches?.("#tree nav") && (response?.status >= 400 || counts.busy())) event.preventDefault();
}

// Keeps the focus and open folders.
async function grow() {
  const focused = document.activeElement?.closest("#tree nav a")?.getAttribute("href");
  const stays = new Set(treeview.links("a.stay").map((link) => link.getAttribute("href")));
  document.addEventListener("htmx:before:swap", leave);
  try {
    await htmx.ajax("GET", isWhole() ? "/read/tree?whole=1" : "/read/tree", { target: "#tree nav", select: "nav", swap: "outerHTML" });
  } finally {
    document.removeEventListener("htmx:before:swap", leave);
  }
  treeview.adopt();
  // Other pages have the tree, too.
  if (list.pane()) panes.mark();
  const links = treeview.links("a[href]");
  for (const link of links) if (stays.has(link.getAttribute("href"))) link.classList.add("stay");
  const link = focused && links.find((one) => one.getAttribute("href") === focused);
  if (link) treeview.focus(link);
}

register({ grow: () => grows(grow()) });
