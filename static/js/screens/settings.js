// Previews display settings while they are chosen.
import { show } from "../look-form.js";
import { toast } from "../toast.js";
import { t } from "../words.js";

const form = document.querySelector("form[data-preview]");

form?.addEventListener("input", () => show(form));
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
