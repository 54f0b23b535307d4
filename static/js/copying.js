import { toast } from "./toast.js";
import { t } from "./words.js";

/** Buttons that copy the text of a field or of another element. */
export function bindCopies() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    const place = document.getElementById(button.dataset.copy);
    button.addEventListener("click", async () => {
      // Without HTTPS, scripts can't write to the clipboard: then the text is selected, to be copied by hand.
      if (place.select) place.select();
      else getSelection().selectAllChildren(place);
      try {
        await navigator.clipboard.writeText(place.value ?? place.textContent);
        toast(t("Copied"));
      } catch {
        toast(t("Selected. Press Ctrl+C to copy."));
      }
    });
  }
}
