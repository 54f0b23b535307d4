// The fields of macros/look.html: the page shows at once what is chosen.
import { t } from "./words.js";

const root = document.documentElement;
const SHOWN = { theme: "theme", font: "font", text_size: "textSize", line_height: "line", text_width: "measure" };

// The bars that the browser draws around the page: the color of its ground.
export function tint() {
  for (const meta of document.querySelectorAll('meta[name="theme-color"]')) {
    meta.removeAttribute("media");
    meta.content = getComputedStyle(document.body).backgroundColor;
  }
}

function label(form) {
  const size = form.elements.text_size.value;
  form.querySelector("output").textContent = size;
  form.elements.text_size.setAttribute("aria-valuetext", t("{num} pixels", { num: size }));
}

export function show(form) {
  for (const [name, attribute] of Object.entries(SHOWN)) root.dataset[attribute] = form.elements[name].value;
  root.dataset.justified = form.elements.justified.checked;
  label(form);
  tint();
}

export function fill(form) {
  for (const [name, attribute] of Object.entries(SHOWN)) form.elements[name].value = root.dataset[attribute];
  form.elements.justified.checked = root.dataset.justified === "true";
  label(form);
}

export function read(form) {
  const chosen = Object.fromEntries(Object.keys(SHOWN).map((name) => [name, form.elements[name].value]));
  return { ...chosen, justified: Number(form.elements.justified.checked) };
}
