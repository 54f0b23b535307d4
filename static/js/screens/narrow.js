// A field that narrows a list of checkboxes to what is typed: beginnings of words first. What is chosen stays in sight.
import { say } from "../toast.js";
import { tn } from "../words.js";

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

// Where a word is in a text, at the beginning of a word if it can be; -1: nowhere.
function place(text, word) {
  const first = text.indexOf(word);
  for (let at = first; at >= 0; at = text.indexOf(word, at + 1)) {
    if (isStart(text, at)) return at;
  }
  return first;
}

const isStart = (text, at) => !/[\p{L}\p{N}]$/u.test(text.slice(0, at));

// Puts what was typed in <mark>. One letter may be none or several in plain form.
function paint({ span, letters, starts }, finds) {
  const isFound = (i) => finds.some(([from, to]) => starts[i] < to && starts[i + 1] > from);
  const parts = [];
  letters.forEach((letter, i) => {
    const last = parts.at(-1);
    if (last?.found === isFound(i)) last.text += letter;
    else parts.push({ found: isFound(i), text: letter });
  });
  span.replaceChildren(
    ...parts.map(({ found, text }) => (found ? Object.assign(document.createElement("mark"), { textContent: text }) : text)),
  );
}

function read(row) {
  const span = row.querySelector("span[dir]");
  const letters = [...span.textContent];
  const starts = [0];
  for (const letter of letters) starts.push(starts.at(-1) + plain(letter).length);
  return { row, span, letters, starts, box: row.querySelector("input"), text: letters.map(plain).join("") };
}

for (const field of document.querySelectorAll("[data-narrow]")) {
  const list = document.getElementById(field.dataset.narrow);
  const groups = [...list.querySelectorAll("[data-group]")].map((group) => ({ group, rows: [...group.querySelectorAll("li")].map(read) }));
  field.addEventListener("input", (event) => {
    // What is typed here is no change of the form.
    event.stopPropagation();
    const words = plain(field.value).split(/\s+/).filter(Boolean);
    let found = 0;
    for (const { group, rows } of groups) {
      const later = [];
      for (const one of rows) {
        const finds = words.map((word) => [place(one.text, word), word.length]);
        const fits = finds.every(([at]) => at >= 0);
        one.row.hidden = !fits && !one.box.checked;
        if (fits) found += 1;
        if (one.row.querySelector("mark") || (fits && words.length)) paint(one, fits ? finds.map(([at, size]) => [at, at + size]) : []);
        if (fits && finds.every(([at]) => isStart(one.text, at))) one.row.parentNode.append(one.row);
        else later.push(one.row);
      }
      group.querySelector("ul").append(...later);
      group.hidden = !group.querySelector("li:not([hidden])");
    }
    list.scrollTop = 0;
    say(tn("{n} result", "{n} results", found));
  });
  // Enter would send the form.
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault();
  });
}
