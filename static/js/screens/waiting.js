// First entries of new feeds: the waiting list polls until they arrive, then is replaced. So this script updates the
// tree: the feed's title and its unread count. Loads with a waiting list.
import * as counts from "../counts.js";
import { links } from "../treeview.js";

function call(link, title) {
  const letter = /[\p{L}\p{N}]/u.exec(title)?.[0] ?? "•";
  link.querySelector("span[dir]").textContent = title;
  link.querySelector(".av").textContent = letter.toUpperCase();
}

let waited = document.getElementById("waiting");

document.addEventListener("htmx:after:swap", () => {
  const waits = document.getElementById("waiting");
  const came = waited && !waits && document.getElementById("rows");
  waited = waits;
  if (!came) return;
  const link = links("a[data-feed][aria-current]")[0];
  const title = document.querySelector("#stream h1");
  // In a list of several feeds, the titles come with the tree's new shape.
  if (link && title) call(link, title.textContent), counts.own();
  counts.refresh();
});
