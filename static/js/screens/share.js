// Shares the open or selected entry, with its box. Loads with the first of its keys or buttons.
import { register } from "../actions.js";
import { postAgain } from "../resend.js";
import * as counts from "../counts.js";
import { equip, ready, shown, whenOpen } from "../panes.js";
import { say, toast } from "../toast.js";
import { t } from "../words.js";

// Below the title who shared the entry, in the bar the buttons; the answer holds both.
const box = () => document.getElementById("share");
const tools = () => document.getElementById("share-tools");

// Opens the entry if necessary; returns its buttons.
const prepare = async () => (await ready()) && tools();

// Keeps a note that is being written during other actions on the entry; a sent note isn't kept.
async function paint(sent) {
  const id = shown()?.dataset.entry;
  if (!id) return;
  const draft = tools()?.querySelector("textarea");
  await htmx.ajax("GET", `/entries/${id}/share`, { target: "#share", source: box(), swap: "outerHTML" });
  const field = shown()?.dataset.entry === id && tools()?.querySelector("textarea");
  if (field && draft && draft.value !== draft.defaultValue && !sent?.contains(draft)) field.value = draft.value;
}

async function restore(token) {
  await postAgain("/undo", { token });
  await paint();
}

async function takeBack(share) {
  await postAgain("/shares/remove", { share });
  await paint();
}

async function send(form) {
  const inside = form.contains(document.activeElement);
  form.setAttribute("aria-busy", "true");
  try {
    const done = await postAgain(form.getAttribute("action"), Object.fromEntries(new FormData(form)));
    const row = form.closest(".acts");
    await counts.own(row && row !== shown() ? equip(row) : paint(form));
    const undo = done.undo ? () => restore(done.undo) : done.share && !done.existed && form.action.endsWith("/entries/share") && (() => takeBack(done.share));
    if (undo) toast(done.text, undo);
    else if (done.text) toast(done.text);
    else say(done.liked ? t("Liked") : t("Like removed"));
    if (inside) tools()?.querySelector("button, summary")?.focus();
  } catch (failure) {
    toast(failure.message);
  } finally {
    form.removeAttribute("aria-busy");
  }
}

const sent = () => {
  const form = document.querySelector('form[data-act="share"][data-sent]');
  form?.removeAttribute("data-sent");
  if (form) send(form);
};

async function share() {
  const place = await prepare();
  const form = (place && box().querySelector('form[action="/shares/remove"]')) ?? place?.querySelector('form[action="/entries/share"]');
  if (form) send(form);
  else if (place) say(t("This entry can't be shared"));
}

async function withNote() {
  const menu = (await prepare())?.querySelector("details");
  if (!menu) return;
  menu.open = true;
  menu.querySelector("textarea").focus();
}

async function chain() {
  const link = (await prepare()) && document.getElementById("chain-link");
  if (link) link.click();
  else toast(t("Nobody has shared this yet"));
}

async function like() {
  const form = (await prepare())?.querySelector('form[action="/entries/like"]');
  if (form) send(form);
}

const ofEntry = { share, "share-note": withNote, chain, like };
for (const [word, action] of Object.entries(ofEntry)) register({ [word]: whenOpen(() => void action()) });
register({ "share-send": sent, "share-paint": () => void paint() });
