// Tags of the selected entry: the menu in its article, the labels in its row and the tree. Loads when the menu is
// first opened by its key, or with the first change.
import { register } from "../actions.js";
import { post } from "../net.js";
import * as panes from "../panes.js";
import { say, toast } from "../toast.js";

const reload = async (url, id) => {
  const place = document.getElementById(id);
  if (place) await htmx.ajax("GET", url, { target: `#${id}`, source: place, swap: "outerHTML" });
};

function paint(id, tags) {
  const line = document.querySelector(`#rows .row[data-id="${CSS.escape(id)}"] p`);
  if (!line) return;
  for (const old of line.querySelectorAll(".tag")) old.remove();
  for (const tag of tags.toReversed()) {
    const word = document.createElement("span");
    word.className = "tag";
    word.dir = "auto";
    word.textContent = tag.name;
    line.querySelector(".src").after(word);
  }
}

// Another entry with its own menu may be open when an answer arrives.
const isOpen = (id) => panes.shown()?.dataset.entry === id;

function write() {
  const menu = document.querySelector("#tags details");
  if (!menu) return;
  menu.open = true;
  document.getElementById("tag-name").focus();
}

async function send(form) {
  const { entry, add, remove } = Object.fromEntries(new FormData(form));
  try {
    const { tags } = await post("/entries/tag", { entry, ...(add ? { add } : { remove }) });
    paint(entry, tags);
    await Promise.all([isOpen(entry) && reload(`/entries/${entry}/tags`, "tags"), reload("/tags/tree", "labels")]);
    if (isOpen(entry)) write();
    say(tags.map((tag) => tag.name).join(", "));
  } catch (failure) {
    toast(failure.message);
  }
}

function sent() {
  const form = document.querySelector('form[data-act="tag"][data-sent]');
  form?.removeAttribute("data-sent");
  if (form) send(form);
}

async function tag() {
  if (await panes.ready()) write();
}

register({ tag: panes.whenOpen(() => void tag()), "tag-send": sent });
