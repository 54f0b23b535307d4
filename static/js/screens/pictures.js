// Shows pictures that Eventr was still fetching when the page was built. Loaded only if there are any.
import { settle } from "../fit.js";

const WAITS = [600, 900, 1300, 2000, 3000, 5000, 8000, 13000, 21000, 34000];
const seen = new Set();
let turn = 0;
let timer = 0;

const waiting = () => [...document.querySelectorAll("img[data-picture]")];

// Says why a picture isn't there. With the next visit, a link leads to it.
function fail(image, reason) {
  const line = document.createElement("span");
  line.className = "no-picture";
  line.textContent = `${reason} ${image.alt}`;
  if (!image.dataset.size) image.replaceWith(line);
}

function show(image, found) {
  if (!["ready", "failed"].includes(found.state)) return;
  const { size, stated } = image.dataset;
  image.removeAttribute("data-picture");
  if (found.state === "failed") return fail(image, found.reason);
  image.classList.remove("wait");
  image.classList.toggle("tall", found.tall);
  if (size) return (image.src = found.thumb);
  const width = stated ? Math.min(found.width, image.getAttribute("width")) : found.width;
  settle(image, width, Math.max(1, Math.round((width * found.height) / found.width)));
  if (found.srcset) {
    image.sizes = "(max-width: 720px) 100vw, 720px";
    image.srcset = found.srcset;
  }
  image.src = found.src;
  // Its next load event loads the script that enlarges it, unless it is a link.
  if (!image.closest("a")) Object.assign(image.dataset, { full: found.full, script: found.lightbox });
}

async function look() {
  timer = 0;
  const images = waiting();
  const ids = [...new Set(images.map((image) => image.dataset.picture))].slice(0, 50);
  if (!ids.length) return;
  try {
    const response = await fetch(`/i/states?ids=${ids}`);
    const states = response.ok ? await response.json() : {};
    for (const image of images) show(image, states[image.dataset.picture] ?? {});
  } catch {
    // Offline: the next look may succeed.
  }
  plan();
}

function plan() {
  const images = waiting();
  if (images.some((image) => !seen.has(image.dataset.picture))) turn = 0;
  for (const image of images) seen.add(image.dataset.picture);
  if (!timer && images.length && turn < WAITS.length) timer = setTimeout(look, WAITS[turn++]);
}

// Other entries bring other pictures.
new MutationObserver(plan).observe(document.body, { childList: true, subtree: true });
plan();
