import { watch } from "../saving.js";

// A feed's page: a line of the menu leads further down, and the menu closes.
for (const link of document.querySelectorAll(".actions .menu-box a")) {
  link.addEventListener("click", () => {
    link.closest("details").open = false;
  });
}
watch(document.getElementById("edit"));
