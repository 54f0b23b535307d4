// First entries of new feeds: the waiting list asks for itself until they are there. It is gone by then, so the
// tree is told here: what a feed is called, and how much is unread. Loaded where a list waits.
import * as counts from "../counts.js";

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
  const link = document.querySelector(".tree a[data-feed][aria-current]");
  const title = document.querySelector("#stream h1");
  // Names of other feeds, where the list is of several, come with the tree's new shape.
  if (link && title) call(link, title.textContent), counts.own();
  counts.refresh();
});
