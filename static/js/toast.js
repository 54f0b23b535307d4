// Messages that disappear on their own, and undo.
import { t } from "./words.js";

const STAY = 15000;
const undos = [];

export function say(text) {
  document.getElementById("say").textContent = text;
}

// The undo callback returns the message about its result.
export function toast(text, undo) {
  const box = document.createElement("div");
  const words = document.createElement("span");
  box.className = "toast";
  words.textContent = text;
  box.append(words);
  if (undo) box.append(undoButton(box, undo));
  const place = document.getElementById("toasts");
  // The same text appears only once; the newest message stays longest.
  if (!undo) for (const one of [...place.children]) if (one.textContent === text) one.remove();
  while (place.children.length > 2) place.firstElementChild.remove();
  place.append(box);
  expire(box);
  return box;
}

function undoButton(box, undo) {
  const button = document.createElement("button");
  const once = { run: undo, box };
  button.type = "button";
  button.textContent = t("Undo");
  button.addEventListener("click", () => take(once));
  undos.push(once);
  return button;
}

// A message stays while it has the pointer or the focus.
function expire(box) {
  setTimeout(() => (box.matches(":hover, :focus-within") ? expire(box) : box.remove()), STAY);
}

export function remember(undo) {
  undos.push({ run: undo });
  if (undos.length > 50) undos.shift();
}

async function take(once) {
  const index = undos.indexOf(once);
  if (index < 0) return;
  undos.splice(index, 1);
  once.box?.remove();
  try {
    say((await once.run()) ?? t("Undone"));
  } catch (failure) {
    toast(failure.message);
  }
}

export function undoLast() {
  const last = undos.at(-1);
  if (last) take(last);
  else say(t("Nothing to undo"));
}

export function start() {
  for (const box of document.querySelectorAll("#toasts .toast")) {
    expire(box);
    const form = box.querySelector("form");
    // Even if it has disappeared: a form outside the page can't be submitted.
    if (form) remember(() => (document.getElementById("toasts").append(box), form.requestSubmit(), ""));
  }
}
