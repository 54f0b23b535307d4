// The borders between panes: moved by pointer or arrow keys, stored on this device.
const KEY = "eventr.panes";
const LIMITS = { tree: [200, 420], list: [300, 720] };
const STEP = 24;
const root = document.documentElement;

const kept = () => JSON.parse(localStorage.getItem(KEY) ?? "{}");

function set(bar, width) {
  const [least, most] = LIMITS[bar.dataset.width];
  const fits = Math.round(Math.min(most, Math.max(least, width)));
  root.style.setProperty(`--pane-${bar.dataset.width}`, `${fits}px`);
  bar.setAttribute("aria-valuenow", fits);
  localStorage.setItem(KEY, JSON.stringify({ ...kept(), [bar.dataset.width]: fits }));
}

const pane = (bar) => bar.previousElementSibling ?? document.getElementById("tree");
const width = (bar) => pane(bar).getBoundingClientRect().width;
const mirrored = () => root.dir === "rtl";

function dragged(event) {
  const bar = event.target;
  if (!bar.hasPointerCapture?.(event.pointerId) || !bar.matches("[data-width]")) return;
  const { left, right } = pane(bar).getBoundingClientRect();
  set(bar, mirrored() ? right - event.clientX : event.clientX - left);
}

function pressed(event) {
  const bar = event.target.closest?.("[data-width]");
  if (!bar) return;
  const [least, most] = LIMITS[bar.dataset.width];
  const step = mirrored() ? -STEP : STEP;
  const wide = { ArrowRight: width(bar) + step, ArrowLeft: width(bar) - step, Home: least, End: most }[event.key];
  if (wide === undefined) return;
  event.preventDefault();
  set(bar, wide);
}

function grabbed(event) {
  if (!event.target.matches?.("[data-width]") || event.button) return;
  event.target.setPointerCapture(event.pointerId);
  event.preventDefault();
}

for (const [name, wide] of Object.entries(kept())) root.style.setProperty(`--pane-${name}`, `${wide}px`);
addEventListener("pointerdown", grabbed);
addEventListener("pointermove", dragged);
addEventListener("keydown", pressed);
