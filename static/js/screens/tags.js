// Tags of the selected entry: the menu in its article, the labels in its row and the tree. Loads when the menu is
// first opened by its key, or with the first change.
import { register } from "../actions.js";
import { postAgain } from "../resend.js";
import * as panes from "../panes.js";
import { say, toast } from "../toast.js";
import { t } from "../words.js";

const reload = async (url, id) => {
  const place = document.getElementById(id);
  if (place) await htmx.ajax("GET", url, { target: `#${id}`, source: place, swap: "outerHTML" });
};

const make = (name, className) => Object.assign(document.createElement(name), { className });

// In the lists of notes and of own shares, tags have a line of their own: at the end, or above the reactions.
function makeLine(row, shares) {
  const line = make("div", "labels");
  const gist = row.querySelector(".gist") ?? row.querySelector(":scope > div").appendChild(make("div", "gist"));
  gist.insertBefore(line, shares ? gist.querySelector(".rest") : null);
  return line;
}

function paint(id, tags) {
  const row = document.querySelector(`#rows .row[data-id="${CSS.escape(id)}"]`);
  if (!row) return;
  for (const old of row.querySelectorAll(".labels, .tag")) old.remove();
  const { stream } = row.closest("[data-stream]").dataset, own = ["notes", "shares"].includes(stream);
  if (own && !tags.length) return;
  const line = own ? makeLine(row, stream === "shares") : row.querySelector("p");
  // A feed's own list doesn't name the feed.
  const source = line?.querySelector(".src");
  for (const tag of tags.toReversed()) {
    const word = make("span", "tag");
    word.dir = "auto";
    word.textContent = tag.name;
    if (source) source.after(word);
    else line?.prepend(word);
  }
}

// Another entry with its own menu may be open when an answer arrives.
const isOpen = (id) => panes.shown()?.dataset.entry === id;

const menu = () => document.querySelector("#tags details");
const field = () => document.getElementById("tag-name");
const ticks = () => [...document.querySelectorAll("#tag-list button")];
const fold = (text) => text.normalize("NFKC").trim().toLocaleLowerCase();

// The field filters the list by its last name. It may hold several, separated by commas.
function filter() {
  const names = field().value.split(",").map(fold);
  const words = ticks().map((tick) => fold(tick.textContent));
  ticks().forEach((tick, index) => (tick.parentNode.hidden = !words[index].includes(names.at(-1))));
  const isNew = names.some((name) => name && !words.includes(name));
  field().form.querySelector("button").textContent = isNew ? t("Create") : t("Add");
}

// Arrow keys go from the field to the list and through it.
function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const places = [field(), ...ticks().filter((tick) => !tick.parentNode.hidden)];
  const at = places.indexOf(event.target);
  if (!step || at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  places[Math.min(Math.max(at + step, 0), places.length - 1)].focus();
}

function prepare() {
  const here = menu();
  if ("ready" in here.dataset) return;
  here.dataset.ready = "";
  field().addEventListener("input", filter);
  here.addEventListener("keydown", move);
}

function write() {
  if (!menu()) return;
  prepare();
  menu().open = true;
  field().focus();
}

// Goes on where the user was: at the line that was ticked, with the list still filtered.
function goOn(name, typed) {
  write();
  if (!name) return;
  field().value = typed;
  filter();
  ticks().find((tick) => tick.textContent === name)?.focus();
}

async function send(button) {
  const name = button.matches("#tag-list *") ? button.textContent : "", typed = field().value;
  const { entry, add, remove } = Object.fromEntries(new FormData(button.form, button));
  try {
    const { tags } = await postAgain("/entries/tag", { entry, ...(add ? { add } : { remove }) });
    paint(entry, tags);
    await Promise.all([isOpen(entry) && reload(`/entries/${entry}/tags`, "tags"), reload("/tags/tree", "labels")]);
    if (isOpen(entry)) goOn(name, typed);
    say(tags.map((tag) => tag.name).join(", "));
  } catch (failure) {
    toast(failure.message);
  }
}

function sent() {
  const button = document.querySelector('form[data-act="tag"] [data-sent]');
  button?.removeAttribute("data-sent");
  if (button) send(button);
}

async function tag(from) {
  if (!(await panes.ready())) return;
  if (from?.matches("#tags summary") && menu()?.open) menu().open = false;
  else write();
}

register({ tag: panes.whenOpen((from) => void tag(from)), "tag-send": sent });
