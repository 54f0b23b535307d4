/** Shows and binds the buttons that copy the text of an element; for pages without the main script, too. */
export function bindCopyButtons() {
  // Without HTTPS, scripts can't write to the clipboard.
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.querySelector("span").textContent = button.dataset.copied;
    });
  }
}
