// Comments below the open entry. Loads with the first of their keys or buttons, or with an entry that has comments.
import { act, register } from "../actions.js";
import { load, post } from "../net.js";
import { ready, whenOpen } from "../panes.js";
import { say, toast } from "../toast.js";
import { t } from "../words.js";

const NEAR = "400px";
const place = () => document.getElementById("talk");
const thread = () => place()?.querySelector(".talk");
const field = () => place()?.querySelector("textarea");
const page = (share) => `/shares/${share}/comments`;

// Opens the entry if necessary; returns the id of the share whose comments it has.
async function prepare() {
  if (!(await ready())) return null;
  // The same place, after the user has shared the entry.
  const share = document.getElementById("share").dataset.share;
  if (!share) toast(t("Share this entry first. Then you and others can comment on it."));
  return share;
}

// Returns whether the comments have arrived, and the user is still at the same entry. A key that asks for comments that
// are on their way waits for them.
let coming = null;
function show(url) {
  const here = place();
  if (coming?.url !== url || coming.here !== here) {
    const mine = { url, here };
    coming = Object.assign(mine, { arrived: bring(url, here).finally(() => coming === mine && (coming = null)) });
  }
  return coming.arrived;
}

async function bring(url, here) {
  const typed = field()?.value;
  if (!(await load(url, "talk")) || place() !== here || !thread()) return false;
  const style = here.querySelector("link");
  if (!style.sheet) await new Promise((done) => ["load", "error"].forEach((kind) => style.addEventListener(kind, done)));
  if (field()) await import(thread().dataset.uploads).then(() => document.dispatchEvent(new Event("attach")), () => {});
  if (typed && field() && !field().value) field().value = typed;
  return place() === here;
}

const isShown = (share) => thread()?.dataset.share === String(share);

async function comment() {
  const share = await prepare();
  if (!share || !(isShown(share) || (await show(page(share))))) return;
  write();
}

function write() {
  field().focus({ preventScroll: true });
  field().form.scrollIntoView({ block: "nearest" });
}

// A link names the share: several people may have shared the entry.
async function comments(link) {
  const mine = await prepare();
  const share = mine && (/\/shares\/(\d+)\//.exec(link?.getAttribute?.("href") ?? "")?.[1] ?? mine);
  if (!share || !(isShown(share) || (await show(page(share))))) return;
  const title = document.getElementById("talk-title");
  title.focus({ preventScroll: true });
  title.scrollIntoView({ block: "start" });
}

const fields = (form) => {
  const found = {};
  for (const [name, value] of new FormData(form)) (found[name] ??= []).push(value);
  return found;
};

async function send(form) {
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  const here = place(), { share } = thread().dataset;
  const removal = form.action.endsWith("/remove");
  try {
    const done = await post(form.getAttribute("action"), fields(form));
    const undo = done.undo && (() => restore(done.undo, here, share));
    if (removal) toast(done.text, undo);
    else say(t("Comment sent"));
    if (field() && form.contains(field())) field().value = "";
    if (place() === here) await changed(share, done.id);
  } catch (failure) {
    toast(failure.message);
  } finally {
    form.ariaBusy = null;
  }
}

async function changed(share, id) {
  act("share-paint");
  if (!(await show(id ? `${page(share)}?at=${id}` : page(share)))) return;
  const said = id && document.getElementById(`c${id}`);
  if (!said) return document.getElementById("talk-title").focus({ preventScroll: true });
  reach(said);
}

function reach(place) {
  place.tabIndex = -1;
  place.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}

async function restore(token, here, share) {
  await post("/undo", { token });
  if (place() === here) await changed(share);
}

async function followed(url) {
  if (!(await show(url.pathname + url.search))) return;
  if (url.searchParams.has("answer") || url.searchParams.has("edit")) return write();
  reach(document.getElementById(url.hash.slice(1)) ?? document.getElementById("talk-title"));
}

document.addEventListener("submit", (event) => {
  if (!thread()?.contains(event.target)) return;
  event.preventDefault();
  send(event.target);
});
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("#talk .talk a");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || url.pathname !== page(thread().dataset.share)) return;
  event.preventDefault();
  followed(url);
});
// Out of the field, to where keys are shortcuts again.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || !event.target.matches?.("#talk textarea")) return;
  event.preventDefault();
  (event.target.closest(".row")?.querySelector("h2 a") ?? document.getElementById("article")).focus({ preventScroll: true });
});

// Loads the comments of an entry when they come near.
const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    if (target === place() && !thread()) show(page(target.dataset.share));
  }
}, { rootMargin: NEAR });
function watch() {
  const here = place();
  if (here && here.dataset.script && !thread()) near.observe(here);
}
document.addEventListener("htmx:after:swap", watch);
watch();

register({ comment: whenOpen(() => void comment()), comments: whenOpen((link) => void comments(link)) });
