// Actions on the selected or open entry. Loads with the first of these keys.
import { register } from "../actions.js";
import { post } from "../net.js";
import { chosen, inText, isOpen, open, openId, swap, whenOpen } from "../panes.js";
import { current } from "../rows.js";
import { say, toast } from "../toast.js";
import { t } from "../words.js";

const reader = () => document.querySelector(".reader");
const place = () => chosen() && (isOpen() ? document.getElementById("article") : current());
const original = (here) => here.querySelector("a.original");

function title() {
  const words = place().querySelector("#entry-title, h2 a").cloneNode(true);
  words.querySelector(".state")?.remove();
  return words.textContent.trim();
}

const link = () => original(place())?.href ?? new URL(`/entries/${chosen()}`, location).href;

// Opens a link in a background tab, like a click with Ctrl (Cmd on a Mac).
function behind() {
  if (!chosen()) return false;
  const click = new MouseEvent("click", { ctrlKey: true, metaKey: true, cancelable: true });
  inText((here) => original(here)?.dispatchEvent(click));
}

function mail() {
  if (!place()) return false;
  const letter = document.createElement("a");
  letter.href = `mailto:?subject=${encodeURIComponent(title())}&body=${encodeURIComponent(link())}`;
  letter.click();
}

function copy() {
  if (!place()) return false;
  const url = link();
  // Without HTTPS, scripts have no access to the clipboard.
  if (!navigator.clipboard) return offer(url);
  navigator.clipboard.writeText(url).then(() => toast(t("Link copied")), () => offer(url));
}

// The system's own list of programs and people.
function send() {
  if (!place() || !navigator.share) return false;
  navigator.share({ title: title(), url: link() }).catch((failure) => failure.name === "AbortError" || toast(failure.message));
}

function offer(url) {
  const before = document.activeElement;
  const field = document.createElement("input");
  const box = toast(t("Copy this link:"));
  Object.assign(field, { readOnly: true, value: url, className: "input" });
  field.setAttribute("aria-label", t("Link"));
  field.addEventListener("keydown", ({ key }) => key === "Escape" && (box.remove(), before.focus()));
  box.append(field);
  field.select();
}

// Fetches the text of the entry's page, or goes back to that of its feed.
async function fullText() {
  if (!(isOpen() || (await open(current())))) return;
  const id = openId();
  const url = new URL(location);
  const back = document.querySelector("#article a[data-text]");
  const form = document.querySelector('#article form[data-act="full-text"]');
  if (back) return swap(back.getAttribute("href"));
  if (!form) return toast(t("This entry has no page"));
  const button = form.querySelector("button");
  button.disabled = true;
  const answer = await bring(form.getAttribute("action"), id).catch((failure) => ({ message: failure.message }));
  button.disabled = false;
  if (openId() !== id || !answer) return;
  if (answer.message) return toast(answer.message);
  url.searchParams.set("text", "full");
  return swap(url.pathname + url.search);
}

// Waits for the job, which may have to wait for its site.
async function bring(action, id, pause = 500) {
  const answer = await post(action, {});
  if (!answer.wait) return answer;
  if (pause > 20000) return { message: t("The site is slow. Try again in a minute.") };
  say(t("Fetching the page…"));
  await new Promise((ready) => setTimeout(ready, pause));
  return openId() === id ? bring(action, id, pause * 2) : null;
}

function full() {
  if (!place()) return false;
  if (openId() && !isOpen()) open(current());
  reader().classList.toggle("full");
}

function leave() {
  if (!reader().classList.contains("full")) return false;
  reader().classList.remove("full");
}

register({
  "original-background": whenOpen(behind),
  mail: whenOpen(mail),
  send: whenOpen(send),
  print: () => print(),
  "copy-link": whenOpen(copy),
  "full-screen": full,
  "full-text": fullText,
  close: leave,
});
