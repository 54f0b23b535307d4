// Uploads files in parts by tus 1.0: with pause, and going on after a reload, in another tab, or on another device.
import { get, load, offline } from "../net.js";
import { csrf } from "../trusted.js";
import { t } from "../words.js";

const form = document.getElementById("upload");
const list = document.getElementById("uploads");
const LONGEST_WAIT = 30000;
const units = ["byte", "kilobyte", "megabyte", "gigabyte"];
const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, Math.min(seconds * 1000, LONGEST_WAIT)));
const encode = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

function size(bytes) {
  const power = Math.min(3, Math.floor(Math.log10(Math.max(bytes, 1)) / 3));
  const options = { style: "unit", unit: units[power], unitDisplay: power ? "short" : "long", maximumFractionDigits: 1, numberingSystem: "latn" };
  return new Intl.NumberFormat(document.documentElement.lang, options).format(bytes / 1000 ** power);
}

async function ask(method, url, headers = {}, body = undefined, signal = undefined) {
  const common = { "Tus-Resumable": "1.0.0", "X-CSRF-Token": csrf(), Accept: "application/json" };
  return fetch(url, { method, headers: { ...common, ...headers }, body, signal }).catch(() => null);
}

class Sending {
  constructor(file, row) {
    Object.assign(this, { file, row, url: row.dataset.url, offset: 0, paused: false, tries: 0 });
    row.sending = this;
    this.button = makeButton(t("Pause"), () => (this.paused ? this.resume() : this.pause()));
    row.querySelector("form")?.remove();
    row.append(this.button, makeButton(t("Cancel"), () => this.cancel()));
  }

  say(text) {
    this.row.querySelector(".state").textContent = text;
    document.getElementById("upload-say").textContent = `${this.file.name}: ${text}`;
  }

  show() {
    const bar = this.row.querySelector("progress");
    [bar.max, bar.value] = [this.file.size || 1, this.offset];
    this.row.querySelector(".state").textContent = t("{done} of {size}", { done: size(this.offset), size: size(this.file.size) });
  }

  pause() {
    this.paused = true;
    this.stop?.abort();
    this.button.textContent = t("Resume");
    this.say(t("Paused"));
  }

  resume() {
    this.paused = false;
    this.button.textContent = t("Pause");
    this.run();
  }

  async cancel() {
    this.paused = true;
    this.stop?.abort();
    if (this.url) await ask("DELETE", this.url);
    this.row.remove();
    renew();
  }

  // Two tabs that send the same file would only disturb each other.
  run() {
    if (!navigator.locks || !this.url) return this.send();
    return navigator.locks.request(this.url, { ifAvailable: true }, (lock) => (lock ? this.send() : this.say(t("Uploading in another tab"))));
  }

  async send() {
    if (!this.url && !(await this.begin())) return;
    let known = false;
    while (!this.paused) {
      known = known || (await this.measure());
      if (known === null) return;
      if (!known) {
        this.say(offline());
        await wait(2 ** Math.min((this.tries += 1), 5));
        continue;
      }
      this.show();
      if (this.offset >= this.file.size) return this.finish();
      known = await this.sendPart();
    }
  }

  async begin() {
    const { name, size: length, lastModified } = this.file;
    const metadata = `filename ${encode(name)},modified ${encode(String(lastModified))}`;
    const answer = await ask("POST", "/uploads", { "Upload-Length": length, "Upload-Metadata": metadata });
    if (answer?.status !== 201) return this.fail(answer);
    this.row.dataset.url = this.url = answer.headers.get("Location");
    return true;
  }

  // True: the offset is known. False: try again later. Null: the upload has ended.
  async measure() {
    const answer = await ask("HEAD", this.url);
    if (!answer || answer.status >= 500) return false;
    if (!answer.ok) return this.fail(answer);
    this.offset = Number(answer.headers.get("Upload-Offset"));
    return true;
  }

  async sendPart() {
    this.stop = new AbortController();
    const end = Math.min(this.offset + Number(form.dataset.part), this.file.size);
    const headers = { "Upload-Offset": this.offset, "Content-Type": "application/offset+octet-stream" };
    const answer = await ask("PATCH", this.url, headers, this.file.slice(this.offset, end), this.stop.signal);
    if (answer?.status === 204) {
      this.offset = Number(answer.headers.get("Upload-Offset"));
      this.tries = 0;
      return true;
    }
    if (!answer || answer.status >= 500 || answer.status === 409 || answer.status === 460) return this.paused ? true : wait(0.5).then(() => false);
    return this.fail(answer);
  }

  async finish() {
    this.say(t("Storing…"));
    this.button.remove();
    for (let turn = 0; turn < 120; turn += 1) {
      const answer = await ask("HEAD", this.url);
      if (answer?.headers.has("Upload-Error")) return this.fail(null, t("The server couldn't store this file. Upload it again."));
      if (answer?.headers.has("Upload-Result") || answer?.status === 404) break;
      await wait(0.5);
    }
    this.row.remove();
    renew();
  }

  async fail(answer, text) {
    const told = answer ? await answer.json().catch(() => ({})) : {};
    this.say(text ?? told.message ?? offline());
    this.button.remove();
    return null;
  }
}

function makeButton(text, act) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "btn small", textContent: text });
  button.addEventListener("click", act);
  return button;
}

function makeRow(file) {
  const [row, words, name, state] = ["li", "span", "strong", "span"].map((tag) => document.createElement(tag));
  words.className = "grow";
  Object.assign(name, { dir: "auto", textContent: file.name });
  state.className = "dim small state";
  const bar = document.createElement("progress");
  bar.setAttribute("aria-label", t("Upload progress"));
  words.append(name, document.createElement("br"), state, bar);
  row.append(words);
  list.append(row);
  return row;
}

const renew = () => load("/settings/files", "files-body");

// The same file as before goes on where the server has it, whichever browser began.
async function start(file) {
  const answer = await get("/uploads");
  const same = (one) => one.name === file.name && one.size === file.size && one.modified === String(file.lastModified) && one.state === "open";
  const known = answer?.data.uploads.find(same);
  const row = (known && list.querySelector(`[data-url="${known.url}"]`)) ?? makeRow(file);
  if (row.sending) return;
  if (known) row.dataset.url = known.url;
  const sending = new Sending(file, row);
  if (file.size > Number(form.dataset.max)) return sending.fail(null, t("This file is too large. The server accepts at most {size}.", { size: size(Number(form.dataset.max)) }));
  sending.run();
}

async function startAll(files) {
  for (const file of files) await start(file);
}

if (form) {
  const field = form.querySelector('[type="file"]');
  const take = () => (startAll([...field.files]), (field.value = ""));
  form.addEventListener("submit", (event) => (event.preventDefault(), take()));
  field.addEventListener("change", take);
  const over = (on) => form.classList.toggle("over", on);
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    over(true);
  });
  addEventListener("dragleave", (event) => event.relatedTarget || over(false));
  addEventListener("drop", (event) => {
    over(false);
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    startAll([...event.dataTransfer.files]);
  });
}
