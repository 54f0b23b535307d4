// Records shortcuts by key press. Esc and Tab cancel, so that nobody is trapped in a field.
import { isKey, names } from "../keys.js";
import { t } from "../words.js";

const PAUSE = 1000; // for a second stroke
let stop = () => {};

function record(button) {
  const form = button.closest("form");
  const words = button.textContent;
  const strokes = [];
  let timer = 0;
  const end = () => {
    clearTimeout(timer);
    document.removeEventListener("keydown", take, true);
    button.textContent = words;
    button.removeAttribute("aria-pressed");
    stop = () => {};
  };
  const done = () => {
    end();
    form.elements.keys.value = strokes.join("+");
    form.requestSubmit();
  };
  const take = (event) => {
    if (!isKey(event)) return;
    if (event.key === "Tab") return end();
    event.preventDefault();
    event.stopPropagation();
    if (event.repeat) return;
    if (event.key === "Escape") return end();
    strokes.push(names(event).at(-1));
    button.textContent = t("{keys}, then…", { keys: strokes.join(" ") });
    clearTimeout(timer);
    if (strokes.length > 1 || strokes[0].length > 1) done();
    else timer = setTimeout(done, PAUSE);
  };
  stop();
  stop = end;
  button.textContent = t("Press a key, or two in a row");
  button.setAttribute("aria-pressed", "true");
  document.addEventListener("keydown", take, true);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-record]");
  if (button && button.getAttribute("aria-pressed") === "true") stop();
  else if (button) record(button);
  else stop();
});
