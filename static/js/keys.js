// Keys by the table in the help dialog: one source for the words, the handler and the tests.
const CHORD = 1500;
const FIELDS = "input, textarea, select, [contenteditable]:not([contenteditable=false])";

export function name(event) {
  let key = event.key === " " ? "Space" : event.key;
  // On a layout of other letters the key's place counts: й on a Russian keyboard is q.
  if (key.length === 1 && key > "\u007f" && /^Key[A-Z]$/.test(event.code)) {
    key = event.code.slice(3);
    if (!event.shiftKey) key = key.toLowerCase();
  }
  if (event.shiftKey && /^[a-zA-Z]$/.test(key)) return `Shift+${key.toUpperCase()}`;
  return event.shiftKey && key === "Space" ? "Shift+Space" : key;
}

function table() {
  const map = new Map();
  for (const row of document.querySelectorAll("#help [data-action]")) {
    for (const keys of row.dataset.keys.split("|")) map.set(keys, row.dataset.action);
  }
  return map;
}

function meant(event) {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return false;
  if (event.target.closest(FIELDS)) return event.key === "Escape";
  if (event.key === "Enter") return !event.target.closest("a, button, summary");
  if (event.key === " ") return !event.target.closest("button, summary");
  return true;
}

export function start(act) {
  const map = table();
  let first = "";
  let since = 0;
  document.addEventListener("keydown", (event) => {
    if (!meant(event)) return;
    if (document.querySelector("dialog[open]") && event.key !== "?") return;
    const key = name(event);
    const chord = first && event.timeStamp - since < CHORD ? `${first} ${key}` : "";
    const action = map.get(chord) ?? map.get(key);
    first = key;
    since = event.timeStamp;
    if (action && act(action)) {
      first = "";
      event.preventDefault();
    }
  });
}
