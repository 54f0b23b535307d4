// What is typed into apps, copied by a button.
import { toast } from "../toast.js";
import { t } from "../words.js";

for (const button of document.querySelectorAll("[data-copies]")) {
  const text = document.getElementById(button.dataset.copies);
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(text);
    // A page without HTTPS may not write to the clipboard by itself: then the text is marked, to be copied by hand.
    try {
      await navigator.clipboard.writeText(text.textContent);
      toast(t("Copied"));
    } catch {
      toast(t("Selected. Press Ctrl+C to copy."));
    }
  });
}

const made = document.getElementById("made");
if (made) {
  // To load this page again must not make another password, nor show this one again.
  history.replaceState(null, "", "/settings/apps");
  made.querySelector("h2").tabIndex = -1;
  made.querySelector("h2").focus();
}
