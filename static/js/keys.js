// Handles keyboard shortcuts: the table of app/web/keyboard/keys.py with the user's changes, as given in the page.
// In text fields, only Ctrl+Enter works: it submits.
const CHORD = 1500;
const FIELDS = "input, textarea, select, [contenteditable]:not([contenteditable=false]), [role=textbox]";
const HELD = new Set(["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock"]);
const PLACES = { BracketLeft: "[", BracketRight: "]", Period: ".", Comma: ",", Slash: "/", Semicolon: ";", Quote: "'" };
const ONGOING = /^(next|previous|down|up|page|page-back|tree-next|tree-previous|text-.*)$/;

const altGr = (event) => event.getModifierState("AltGraph");

function name(event, key) {
  const letter = key.length === 1 && key.toLowerCase() !== key.toUpperCase();
  const ctrl = (event.ctrlKey || event.metaKey) && !altGr(event);
  // Which other characters need Shift depends on the keyboard.
  const shift = event.shiftKey && (letter || key.length > 1);
  const word = !letter ? key : shift || ctrl ? key.toUpperCase() : key.toLowerCase();
  return (ctrl ? "Ctrl+" : "") + (shift ? "Shift+" : "") + word;
}

// Returns the names of a key press: by its character, and on non-Latin keyboards by its position, too: й is q.
export function names(event) {
  const key = event.key === " " ? "Space" : event.key;
  const latin = key.length === 1 && key > "\u007f" && (/^Key(.)$/.exec(event.code)?.[1] ?? PLACES[event.code]);
  return (latin ? [key, latin] : [key]).map((one) => name(event, one));
}

export const isKey = (event) => !HELD.has(event.key) && !event.isComposing && event.keyCode !== 229;

function table() {
  const map = new Map();
  for (const line of document.querySelector('meta[name="keys"]').content.split("\n")) {
    const [action, ...keys] = line.split(" ");
    for (const key of keys) map.set(key, action);
  }
  return map;
}

function meant(event) {
  const { key, target } = event;
  if (event.defaultPrevented || !isKey(event) || (event.altKey && !altGr(event))) return false;
  // A field whose dialog closes may keep the focus until the next frame; nobody types into what can't be seen.
  if (target.closest(FIELDS)?.checkVisibility() || document.querySelector("dialog[open]")) return false;
  if (key === "Escape") return !document.querySelector("details.menu[open], :popover-open");
  if (key === "Enter") return !target.closest("a, button, summary");
  return key !== " " || !target.closest("button, summary, audio, video");
}

export function start(act) {
  const map = table();
  const hints = [...document.querySelectorAll(".chord")];
  let waiting = null;
  let timer = 0;
  const wait = (hint) => {
    clearTimeout(timer);
    if (waiting) waiting.hidden = true;
    waiting = hint;
    if (!hint) return;
    hint.hidden = false;
    timer = setTimeout(wait, CHORD, null);
  };
  document.addEventListener("keydown", (event) => {
    const letter = isKey(event) && event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.closest("form:has(textarea)");
    if (letter && !event.repeat) return event.preventDefault(), letter.requestSubmit();
    if (!meant(event) || (waiting && event.repeat)) return;
    const first = waiting?.dataset.first;
    wait(null);
    const pressed = names(event);
    const action = map.get(pressed.map((key) => (first ? `${first}+${key}` : key)).find((key) => map.has(key)));
    const hint = !first && hints.find((one) => pressed.includes(one.dataset.first));
    if (action ? (event.repeat && !ONGOING.test(action)) || act(action) : hint) event.preventDefault();
    if (!action && hint) wait(hint);
  });
}
