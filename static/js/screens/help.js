// The help: loads on first use; its field filters the list.
import { register } from "../actions.js";
import { load } from "../net.js";
import { say } from "../toast.js";
import { tn } from "../words.js";

const dialog = document.getElementById("help");

async function show() {
  if (!dialog.firstChild && !(await load("/help/keys", "help"))) return;
  // The dialog must not be seen without its look.
  const sheet = dialog.querySelector("link");
  if (sheet && !sheet.sheet) {
    await new Promise((ready) => {
      sheet.addEventListener("load", ready);
      sheet.addEventListener("error", () => ready(sheet.remove()));
    });
  }
  if (!dialog.open) dialog.showModal();
  // On a touch screen, focusing the field would cover the shortcuts with the keyboard.
  if (matchMedia("(hover: hover)").matches) dialog.querySelector("[data-filter]").focus();
}

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

function filter(field) {
  const words = plain(field.value).split(/\s+/).filter(Boolean);
  const list = field.parentElement;
  let found = 0;
  for (const row of list.querySelectorAll("[data-find]")) {
    const text = plain(row.textContent);
    row.hidden = !words.every((word) => text.includes(word));
    if (!row.hidden) found += 1;
  }
  for (const group of list.querySelectorAll("[data-group]")) group.hidden = !group.querySelector("[data-find]:not([hidden])");
  say(tn("{n} shortcut found", "{n} shortcuts found", found));
}

document.addEventListener("input", ({ target }) => target.matches("[data-filter]") && filter(target));
register({ help: show });
