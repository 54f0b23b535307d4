// Copy buttons for the values to enter in apps.
import { toast } from "../toast.js";
import { t } from "../words.js";

for (const button of document.querySelectorAll("[data-copies]")) {
  const text = document.getElementById(button.dataset.copies);
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(text);
    // Without HTTPS, scripts can't write to the clipboard: then select the text, to be copied by hand.
    try {
      await navigator.clipboard.writeText(text.textContent);
      toast(t("Copied"));
    } catch {
      toast(t("Selected. Press Ctrl+C to copy."));
    }
  });
}

document.getElementById("to-app")?.addEventListener("change", ({ target }) => {
  if (target.value) location.hash = target.value;
});

const made = document.getElementById("made");
if (made) {
  // Reloading this page must neither create another password nor show this one again.
  history.replaceState(null, "", "/settings/apps");
  made.querySelector("h2").tabIndex = -1;
  made.querySelector("h2").focus();
}
