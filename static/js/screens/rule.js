// The form of a rule: parts of a condition are added with a press, and the folded list names what is chosen.
const field = document.getElementById("f-query");

for (const button of document.querySelectorAll("[data-part]")) {
  button.addEventListener("click", () => {
    const text = field.value.trimEnd();
    field.value = `${text}${text ? " " : ""}${button.dataset.part}`;
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

const chosen = document.getElementById("scope-chosen");
document.getElementById("scopes").addEventListener("change", ({ currentTarget }) => {
  const names = [...currentTarget.querySelectorAll(":checked")].map((box) => box.closest("label").querySelector("span[dir]").textContent);
  chosen.textContent = names.join(", ") || chosen.dataset.none;
});
