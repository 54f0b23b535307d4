// Small behaviors: menus that close, folders that keep their open state.
const KEY = "eventr.closed-folders";

function menus(event) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
}

const left = () => new Set(JSON.parse(localStorage.getItem(KEY) ?? "[]"));

export function fold() {
  const closed = left();
  for (const details of document.querySelectorAll(".folder > details")) {
    if (closed.has(details.parentElement.dataset.id)) details.open = false;
  }
}

function folders() {
  fold();
  // Listens in the capture phase, since the event doesn't bubble and folders may be added later.
  const toggled = ({ target }) => {
    if (!target.matches(".folder > details")) return;
    const closed = left();
    closed[target.open ? "delete" : "add"](target.parentElement.dataset.id);
    localStorage.setItem(KEY, JSON.stringify([...closed]));
  };
  document.addEventListener("toggle", toggled, true);
}

// The script for moving items in the tree loads when the pointer or focus gets near the tree.
function tools() {
  const tree = document.getElementById("tree");
  let asked = false;
  const load = () => {
    if (!asked) import(tree.dataset.tool).catch(() => (asked = false));
    asked = true;
  };
  for (const kind of ["pointerover", "focusin"]) tree?.addEventListener(kind, load);
}

export function start(act) {
  folders();
  tools();
  document.addEventListener("click", (event) => {
    menus(event);
    const button = event.target.closest("[data-key]");
    if (button && !event.ctrlKey && !event.metaKey && act(button.dataset.key, button)) event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.activeElement?.closest("details.menu[open]");
    if (menu) (menu.open = false), menu.querySelector("summary").focus();
  });
}
