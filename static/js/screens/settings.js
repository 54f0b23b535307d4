// Settings of display are shown while they are chosen; they are kept when they are saved.
import { toast } from "../toast.js";
import { t } from "../words.js";

const root = document.documentElement;
const form = document.querySelector("form[data-preview]");

function show() {
  const chosen = new FormData(form);
  const size = chosen.get("text_size");
  root.dataset.theme = chosen.get("theme");
  root.dataset.font = chosen.get("font");
  root.dataset.textSize = size;
  form.querySelector("output").textContent = size;
  form.elements.text_size.setAttribute("aria-valuetext", t("{num} pixels", { num: size }));
}

form?.addEventListener("input", show);
// What is changed after it was saved is not saved.
for (const one of document.querySelectorAll(".section form")) {
  one.addEventListener("input", () => one.querySelector("#saved")?.replaceChildren());
}

// A page without HTTPS may not write to the clipboard by itself: then the address is there to be copied by hand.
for (const button of document.querySelectorAll("[data-copy]")) {
  const field = document.getElementById(button.dataset.copy);
  button.addEventListener("click", async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      toast(t("Copied"));
    } catch {
      toast(t("Selected. Press Ctrl+C to copy."));
    }
  });
}
