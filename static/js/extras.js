// Small behaviors: menus that close, and tools that load when they are needed.

function menus(event) {
  for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = menu.contains(event.target);
}

// A command closes the menu of an article that it was in, and what it opens isn't covered.
function done(button) {
  const menu = button?.closest("#article > .bar > .menu:not(.share-menu)");
  if (!menu || button.matches("summary")) return;
  if (menu.contains(document.activeElement)) menu.querySelector("summary").focus({ preventScroll: true });
  menu.open = false;
}

// The script for moving items in the tree loads when the pointer or focus gets near the tree.
function tools() {
  const tree = document.getElementById("tree");
  let asked;
  const load = (repeat) => {
    asked ??= import(tree.dataset.tool);
    asked.then(repeat, () => (asked = null));
  };
  // Arrow keys pressed meanwhile count, too.
  tree?.addEventListener("keydown", (event) => {
    if ("ready" in tree.dataset || !/^(Arrow|Home|End)/.test(event.key)) return;
    event.preventDefault();
    load(() => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", event)));
  });
  for (const kind of ["pointerover", "focusin"]) tree?.addEventListener(kind, () => load());
}

export function start(act) {
  tools();
  document.addEventListener("click", (event) => {
    menus(event);
    const button = event.target.closest("[data-key]");
    done(button);
    if (button && !event.ctrlKey && !event.metaKey && act(button.dataset.key, button)) event.preventDefault();
  });
  // Chosen files are sent, or named on their button.
  document.addEventListener("change", ({ target }) => {
    if (!target.matches(".pick-file *")) return;
    if ("send" in target.dataset) target.form.requestSubmit();
    else if (target.files[0]) target.nextSibling.lastChild.textContent = target.files[0].name;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.activeElement?.closest("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}
