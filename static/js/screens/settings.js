// Previews display settings while they are chosen; they are stored on save.
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
// Later changes aren't saved yet, so remove the confirmation.
for (const one of document.querySelectorAll(".section form")) {
  one.addEventListener("input", () => one.querySelector("#saved")?.replaceChildren());
}

// Without HTTPS, scripts can't write to the clipboard: then the address is selected, to be copied by hand.
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
