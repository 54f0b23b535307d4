// A field that narrows a list of checkboxes to what is typed. What is chosen stays in sight.
import { say } from "../toast.js";
import { tn } from "../words.js";

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

for (const field of document.querySelectorAll("[data-narrow]")) {
  const list = document.getElementById(field.dataset.narrow);
  const rows = [...list.querySelectorAll("li")].map((row) => ({ row, box: row.querySelector("input"), text: plain(row.textContent) }));
  field.addEventListener("input", (event) => {
    // What is typed here is no change of the form.
    event.stopPropagation();
    const words = plain(field.value).split(/\s+/).filter(Boolean);
    let found = 0;
    for (const { row, box, text } of rows) {
      const fits = words.every((word) => text.includes(word));
      row.hidden = !fits && !box.checked;
      if (fits) found += 1;
    }
    for (const group of list.querySelectorAll("[data-group]")) group.hidden = !group.querySelector("li:not([hidden])");
    list.scrollTop = 0;
    say(tn("{n} result", "{n} results", found));
  });
  // Enter would send the form.
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault();
  });
}
