// Enlarges the pictures of an entry: with a click, with keys, and in their own size. Loads with the first picture.
import { t } from "../words.js";

const dialog = document.createElement("dialog");
const picture = document.createElement("img");
const words = document.createElement("p");
const bar = document.createElement("div");
const [before, after, close] = [t("Previous picture"), t("Next picture"), t("Close")].map(makeButton);
let shown = null;

function makeButton(label) {
  const button = document.createElement("button");
  return Object.assign(button, { type: "button", className: "btn", textContent: label });
}

const enlargeable = () => [...(shown.closest(".prose")?.querySelectorAll("img[data-full]") ?? [])];

function show(image) {
  shown = image;
  dialog.classList.remove("zoomed");
  dialog.classList.toggle("tall", image.classList.contains("tall"));
  before.hidden = after.hidden = enlargeable().length < 2;
  picture.src = image.dataset.full;
  picture.alt = image.alt;
  words.textContent = image.alt;
  if (!dialog.open) dialog.showModal();
  dialog.scrollTo(0, 0);
}

function go(step) {
  const all = enlargeable();
  show(all.at((all.indexOf(shown) + step) % all.length));
}

// What was clicked stays in sight.
function zoom(event) {
  const box = picture.getBoundingClientRect();
  const [x, y] = event?.clientX ? [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height] : [0.5, 0];
  dialog.classList.toggle("zoomed");
  dialog.scrollTo(dialog.scrollWidth * x - innerWidth / 2, dialog.scrollHeight * y - innerHeight / 2);
}

const KEYS = { ArrowRight: () => go(1), ArrowLeft: () => go(-1), z: zoom, "+": zoom, "-": zoom };
const SIGNS = [
  [before, "‹", -1],
  [after, "›", 1],
];

dialog.className = "lightbox";
dialog.setAttribute("aria-label", t("Picture"));
for (const [button, sign, step] of SIGNS) {
  button.setAttribute("aria-label", button.textContent);
  button.textContent = sign;
  button.addEventListener("click", () => go(step));
}
close.autofocus = true;
bar.append(before, after, close);
dialog.append(bar, picture, words);
document.body.append(dialog);
close.addEventListener("click", () => dialog.close());
picture.addEventListener("click", zoom);
dialog.addEventListener("close", () => shown?.focus({ preventScroll: true }));
dialog.addEventListener("keydown", (event) => {
  // The shortcuts of the page must not act below the picture.
  event.stopPropagation();
  const right = document.dir === "rtl" && event.key.startsWith("Arrow");
  const key = right ? { ArrowRight: "ArrowLeft", ArrowLeft: "ArrowRight" }[event.key] : event.key;
  if (!KEYS[key] || event.ctrlKey || event.metaKey || event.altKey) return;
  KEYS[key]();
  event.preventDefault();
});

function offer(image) {
  image.tabIndex = 0;
  image.setAttribute("role", "button");
  if (!image.alt) image.setAttribute("aria-label", t("Picture"));
}

const offerAll = () => document.querySelectorAll("img[data-full]:not([tabindex])").forEach(offer);

document.addEventListener("click", ({ target }) => target.matches("img[data-full]") && show(target));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.target.matches("img[data-full]")) return;
  event.preventDefault();
  show(event.target);
});
new MutationObserver(offerAll).observe(document.body, { childList: true, subtree: true, attributeFilter: ["data-full"] });
offerAll();
