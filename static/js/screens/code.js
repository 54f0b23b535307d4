// Code and tables of articles: copies code, and leaves out of the tab order what doesn't scroll. Loads with the
// first code.
import { toast } from "../toast.js";
import { t } from "../words.js";

const BOXES = ".code > pre, .wide";

async function copy(button) {
  const code = button.parentElement.querySelector("pre");
  try {
    await navigator.clipboard.writeText(code.textContent);
    toast(t("Copied"));
  } catch {
    // Without HTTPS, scripts have no access to the clipboard.
    getSelection().selectAllChildren(code);
    toast(t("Selected. Press Ctrl+C to copy."));
  }
}

function measure(box) {
  box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
}

const sizes = new ResizeObserver((changed) => changed.forEach(({ target }) => measure(target)));
const watch = () => document.querySelectorAll(BOXES).forEach((box) => sizes.observe(box));

document.addEventListener("click", ({ target }) => target.matches(".code > .copy") && copy(target));
document.addEventListener("htmx:after:swap", watch);
watch();
