// Sign-up, log-in and new password: shows what is typed on request, checks a user name while it's typed, and
// keeps everything typed when the server refuses the form. Without this script the form is sent as usual.
document.documentElement.classList.add("js");

for (const button of document.querySelectorAll("[data-reveal]")) {
  const field = document.getElementById(button.dataset.reveal);
  button.addEventListener("click", () => {
    const shown = field.type === "password";
    field.type = shown ? "text" : "password";
    button.setAttribute("aria-pressed", String(shown));
    field.focus();
  });
  // A browser remembers passwords of password fields only.
  field.form.addEventListener("submit", () => (field.type = "password"));
}

const PAUSE = 350;
const form = document.getElementById("sign-up");
const name = form?.elements.name;
const rule = name && document.getElementById("h-name").textContent;

function say(field, text, bad, suggestion = "") {
  let hint = document.getElementById(`h-${field.name}`);
  if (!hint) {
    hint = document.createElement("p");
    hint.id = `h-${field.name}`;
    field.after(hint);
    field.setAttribute("aria-describedby", hint.id);
  }
  if (bad) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
  hint.className = bad ? "hint bad" : "hint";
  hint.textContent = text;
  if (!suggestion) return;
  const use = document.createElement("button");
  use.type = "button";
  use.className = "link-btn";
  use.textContent = form.dataset.use.replace("{name}", suggestion);
  use.addEventListener("click", () => {
    field.value = suggestion;
    field.focus();
    check();
  });
  hint.append(" ", use);
}

let waiting = 0;
let newest = 0;
async function check() {
  const wish = name.value.trim();
  const mine = ++newest;
  if (!wish) return say(name, rule, false);
  const response = await fetch(`/signup/name?name=${encodeURIComponent(wish)}`, { headers: { Accept: "application/json" } });
  if (mine !== newest) return;
  if (!response.ok) return say(name, rule, false);
  const found = await response.json();
  say(name, found.problem || form.dataset.free, Boolean(found.problem), found.suggestion);
}

name?.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => check().catch(() => {}), PAUSE);
});

function warn(text) {
  const note = document.createElement("p");
  note.className = "note error";
  note.setAttribute("role", "alert");
  note.textContent = text;
  document.getElementById("problem").append(note);
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  newest += 1;
  const button = form.querySelector("button:not([type])");
  button.disabled = true;
  document.getElementById("problem").replaceChildren();
  try {
    const response = await fetch(form.action, {
      method: "POST",
      headers: { Accept: "application/json" },
      body: new URLSearchParams(new FormData(form)),
    });
    const found = await response.json();
    if (response.ok) return location.assign(found.next);
    const field = form.elements[found.field];
    if (field?.type && field.type !== "hidden") {
      say(field, found.message, true);
      field.focus();
    } else {
      warn(found.message);
    }
  } catch {
    warn(form.dataset.failed); // not sent again: the account may exist, and only the answer be lost
  }
  button.disabled = false;
});
