// Adds pictures to a form: chosen, pasted or dropped ones are uploaded by tus 1.0 and described before it is sent.
import { isolate } from "../names.js";
import { offline } from "../net.js";
import { csrf } from "../trusted.js";
import { t } from "../words.js";

const PART = 4 << 20;
const PAUSE = 500;
const TURNS = 120;
const encode = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
const wait = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

async function ask(method, url, headers = {}, body = undefined) {
  const common = { "Tus-Resumable": "1.0.0", "X-CSRF-Token": csrf(), Accept: "application/json" };
  const answer = await fetch(url, { method, headers: { ...common, ...headers }, body }).catch(() => null);
  if (answer?.ok) return answer;
  const told = answer ? await answer.json().catch(() => ({})) : {};
  throw new Error(told.message ?? offline());
}

// Returns the id of the file that an upload became.
async function upload(file) {
  const metadata = `filename ${encode(file.name)},purpose ${encode("picture")}`;
  const begun = await ask("POST", "/uploads", { "Upload-Length": file.size, "Upload-Metadata": metadata });
  const url = begun.headers.get("Location");
  for (let offset = 0; offset < file.size; ) {
    const headers = { "Upload-Offset": offset, "Content-Type": "application/offset+octet-stream" };
    const answer = await ask("PATCH", url, headers, file.slice(offset, offset + PART));
    offset = Number(answer.headers.get("Upload-Offset"));
  }
  for (let turn = 0; turn < TURNS; turn += 1) {
    const { headers } = await ask("HEAD", url);
    if (headers.has("Upload-Result")) return headers.get("Upload-Result").split("/").pop();
    if (headers.has("Upload-Error")) throw new Error(t("This picture can't be used. Choose a JPEG, PNG, GIF, WebP or AVIF file."));
    await wait();
  }
  throw new Error(offline());
}

function number(place) {
  const rows = [...place.querySelectorAll("li")].filter((row) => !row.querySelector('[name="file"]').disabled);
  rows.forEach((row, index) => (row.querySelector("[data-alt]").name = `alt${index + 1}`));
  let mark = place.querySelector('[name="with_files"]');
  if (!mark) {
    mark = Object.assign(document.createElement("input"), { type: "hidden", name: "with_files", value: "1" });
    place.append(mark);
  }
}

function setBusy(form, change) {
  form.dataset.uploads = Number(form.dataset.uploads ?? 0) + change;
  for (const button of form.querySelectorAll("button:not([type])")) button.disabled = Number(form.dataset.uploads) > 0;
}

async function add(place, file) {
  const list = place.querySelector("ul");
  if (list.children.length >= Number(place.dataset.most)) return;
  const row = place.querySelector("template").content.firstElementChild.cloneNode(true);
  const state = row.querySelector("[data-state]"), form = place.closest("form");
  list.append(row);
  state.textContent = t("Uploading {name}…", { name: isolate(file.name) });
  setBusy(form, 1);
  try {
    const id = await upload(file);
    if (!row.isConnected) return;
    row.querySelector("img").src = `/m/${id}/t208`;
    Object.assign(row.querySelector('[name="file"]'), { value: id, disabled: false });
    state.textContent = "";
    row.querySelector("label").hidden = false;
    for (const text of form.querySelectorAll("textarea[required]")) text.required = false;
    number(place);
  } catch (failure) {
    state.textContent = failure.message;
  } finally {
    setBusy(form, -1);
  }
}

const isPicture = (file) => file.type.startsWith("image/");
const addAll = (place, files) => [...files].filter(isPicture).forEach((file) => add(place, file));

function start(place) {
  place.hidden = false;
  const form = place.closest("form"), field = place.querySelector('[type="file"]');
  number(place);
  field.addEventListener("change", () => (addAll(place, field.files), (field.value = "")));
  place.addEventListener("click", (event) => {
    const button = event.target.closest("[data-drop]");
    if (button) button.closest("li").remove(), number(place), field.focus();
  });
  form.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files].filter(isPicture);
    if (files.length) event.preventDefault(), addAll(place, files);
  });
  form.addEventListener("dragover", (event) => event.dataTransfer.types.includes("Files") && event.preventDefault());
  form.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length) event.preventDefault(), addAll(place, event.dataTransfer.files);
  });
}

// Forms that come later are announced by an event.
const startAll = () => document.querySelectorAll("[data-attach][hidden]").forEach(start);
document.addEventListener("attach", startAll);
startAll();
// A browser brings the focused field of a reply into sight, but not its buttons.
document.querySelector("form.in-place")?.scrollIntoView({ block: "nearest" });
