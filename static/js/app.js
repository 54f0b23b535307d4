// Where it begins: every screen has the keys, the messages and the help; the reader has the rest.
import "./trusted.js";
import "./zone.js";
import * as keys from "./keys.js";
import * as reader from "./reader.js";
import * as toasts from "./toast.js";
import * as extras from "./extras.js";

function search() {
  const field = document.getElementById("q");
  if (!field) return location.assign("/search");
  field.focus();
  field.select();
}

const everywhere = {
  help: () => document.getElementById("help").showModal(),
  add: () => location.assign("/add"),
  undo: toasts.undoLast,
  search,
  "go-tags": () => location.assign("/tags"),
  "go-all": () => location.assign("/read/all"),
  "go-starred": () => location.assign("/read/starred"),
};

const reading = document.querySelector(".reader") !== null;

function act(word) {
  const action = (reading && reader.actions[word]) || everywhere[word];
  if (!action) return false;
  action();
  return true;
}

document.documentElement.classList.add("js");
toasts.start();
keys.start(act);
extras.start(act);
if (reading) reader.start();
