// The table of subscriptions: the number selected, selecting a whole page or a range.
import { t, tn } from "../words.js";

const form = document.getElementById("bulk");
const boxes = [...(form?.querySelectorAll('input[name="feed"]') ?? [])];
const every = document.getElementById("every");
const whole = document.getElementById("whole");
let last = null;

function count() {
  const chosen = boxes.filter((box) => box.checked).length;
  every.checked = chosen === boxes.length;
  every.indeterminate = chosen > 0 && chosen < boxes.length;
  for (const box of boxes) box.disabled = whole.checked;
  every.disabled = whole.checked;
  const words = chosen ? tn("{n} selected", "{n} selected", chosen) : t("None selected");
  document.getElementById("chosen").textContent = whole.checked ? "" : words;
  for (const button of form.querySelectorAll("button[name=do]")) button.disabled = (!chosen && !whole.checked) || !fits(button.value);
}

// What can be done with the chosen folder; "0" is none, to which feeds can only be moved.
function fits(deed) {
  const { value } = document.getElementById("into");
  return deed === "move" ? value !== "" : !["add", "remove"].includes(deed) || Number(value) > 0;
}

// Shift and click selects all rows between.
function range(event) {
  const at = boxes.indexOf(event.target);
  if (at < 0) return;
  if (event.shiftKey && last !== null) {
    for (const box of boxes.slice(Math.min(at, last), Math.max(at, last) + 1)) box.checked = event.target.checked;
  }
  last = at;
}

if (every) {
  form.addEventListener("click", range);
  form.addEventListener("change", (event) => {
    if (event.target === every) for (const box of boxes) box.checked = every.checked;
    count();
  });
  addEventListener("pageshow", count);
  count();
}
for (const select of document.querySelectorAll(".manager-find select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
// On a phone, the filters are folded.
const filter = document.getElementById("filter");
filter?.addEventListener("click", () => {
  filter.setAttribute("aria-expanded", document.querySelector(".manager").classList.toggle("filtered"));
});
