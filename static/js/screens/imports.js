// Import pages: dropping a file on the page, checkboxes of whole folders, and live progress.
import * as live from "../live.js";
import { get, load } from "../net.js";
import { number, t, tn } from "../words.js";

const POLL = 2000;
const SPEAK = 5000;
let spoken = 0;

function dropping(form) {
  const field = form.querySelector('[type="file"]');
  const over = (on) => form.classList.toggle("over", on);
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    over(true);
  });
  addEventListener("dragleave", (event) => event.relatedTarget || over(false));
  addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    over(false);
    field.files = event.dataTransfer.files;
    form.requestSubmit();
  });
  field.addEventListener("change", () => field.files.length && form.requestSubmit());
}

// A folder's checkbox reflects those below it.
function ticking(form) {
  const boxes = (set) => [...set.querySelectorAll('[name="pick"]:not(:disabled)')];
  const show = (set) => {
    const whole = set.querySelector("[data-whole]");
    const all = boxes(set);
    const on = all.filter((box) => box.checked).length;
    if (!whole) return;
    whole.checked = on > 0 && on === all.length;
    whole.indeterminate = on > 0 && on < all.length;
    whole.disabled = !all.length;
  };
  const start = form.querySelector(".start .primary:is(button)");
  // Without a feed, only an archive brings something: marks of entries, or rules and searches that are wanted.
  const isRest = () => form.dataset.rest === "all" || (form.dataset.rest === "choices" && form.querySelector("[name=choices]")?.checked);
  function count() {
    if (!start || form.querySelector('[value="next"], [value="back"]')) return;
    const on = form.querySelectorAll('[name="pick"]:checked').length;
    const able = on > 0 || ("rest" in form.dataset && isRest());
    if ("subscribe" in form.dataset) start.textContent = tn("Subscribe to {n} feed", "Subscribe to {n} feeds", on);
    else if (on) start.textContent = tn("Import {n} feed", "Import {n} feeds", on);
    else start.textContent = able ? t("Import") : t("Import selected feeds");
    for (const button of form.querySelectorAll('[value="start"]')) button.disabled = !able;
    start.disabled = !able;
    const hint = form.querySelector("#h-start");
    if (hint) hint.hidden = able;
  }
  form.addEventListener("change", ({ target }) => {
    const set = target.closest("fieldset");
    if (target.matches("[data-whole]")) for (const box of boxes(set)) box.checked = target.checked;
    if (set?.matches(".ticks")) show(set);
    count();
  });
  if ("rest" in form.dataset) count();
  form.querySelectorAll(".ticks").forEach(show);
}

function left(seconds) {
  return seconds < 60 ? t("less than a minute left") : tn("about {n} min left", "about {n} min left", Math.round(seconds / 60));
}

function words({ done, goal, failed_now: failed, seconds }) {
  const parts = [t("{done} of {goal}", { done, goal })];
  if (failed) parts.push(t("{n} failed", { n: failed }));
  if (seconds !== null) parts.push(left(seconds));
  return parts.join(", ");
}

function show(report) {
  const job = document.getElementById("job");
  if (!job || report.id !== Number(job.dataset.id)) return;
  // Not reload(), which would send a form again.
  if (job.dataset.state === "reading" && (report.state !== "reading" || String(report.waits) !== job.dataset.waits)) return location.replace(`/imports/${report.id}`);
  if (report.state !== job.dataset.state) return renew();
  for (const place of job.querySelectorAll("[data-count]")) {
    const count = report[place.dataset.count];
    place.textContent = number(count);
    place.parentElement.hidden = !count && place.dataset.count !== "added";
  }
  const bar = document.getElementById("bar");
  if (!bar) return;
  bar.value = report.done;
  document.getElementById("words").textContent = words(report);
  const chip = document.getElementById("import-chip");
  if (chip) chip.lastChild.textContent = t("Importing {done} of {goal}", report);
  speak(words(report));
}

function speak(text) {
  if (Date.now() - spoken < SPEAK) return;
  spoken = Date.now();
  document.getElementById("import-say").textContent = text;
}

async function renew() {
  await load(location.pathname, "import-body");
  if (!runs()) document.getElementById("import-chip")?.remove();
  spoken = 0;
  speak(document.querySelector(".job-state").textContent.trim());
}

const runs = () => ["reading", "queued", "running"].includes(document.getElementById("job")?.dataset.state);

async function ask() {
  const answer = await get(`/api/imports/${document.getElementById("job").dataset.id}`);
  if (answer) show(answer.data);
}

function watching() {
  if (!runs()) return;
  live.start((kind, data) => (kind === "import" ? show(data) : kind === "reset" && ask()));
  // Events are hints only, so the page also polls: rarely with a stream, always without.
  let turn = 0;
  setInterval(() => {
    turn += 1;
    if (!document.hidden && runs() && (!live.alive() || turn % 5 === 0)) ask();
  }, POLL);
}

const drop = document.getElementById("drop");
const ticks = document.getElementById("ticks");
if (drop) dropping(drop);
if (ticks) ticking(ticks);
if (document.getElementById("job")) watching();
