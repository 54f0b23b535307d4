// Plays recordings in a bar that stays while the page shows other things. Videos and players of other sites play
// where they stand. Loads with the first click on a player. No site gets a request before that click (H07).
import { register } from "../actions.js";
import { isolate } from "../names.js";
import { post } from "../net.js";
import { say, toast } from "../toast.js";
import { t, tn } from "../words.js";

// What plays in this tab, for the next page.
const KEY = "eventr.player";
const RATE = "eventr.rate";
const RATES = [0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3];
const MINUTES = [5, 15, 30, 45, 60];
const [BACK, FORWARD] = [15, 30];
// Milliseconds between stored positions; seconds that are worth storing.
const PAUSE = 15000;
const WORTH = 2;

const root = document.documentElement;
const meta = document.querySelector('meta[name="keys"]');
const sprite = document.querySelector("use")?.getAttribute("href").split("#")[0];
const played = new Map();
const sites = new Set();

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function icon(name) {
  const [svg, use] = ["svg", "use"].map((one) => document.createElementNS("http://www.w3.org/2000/svg", one));
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `${sprite}#${name}`);
  svg.append(use);
  return svg;
}

function button(label, picture, act, name = "tool") {
  const made = element("button", { type: "button", class: name, "aria-label": label, title: label }, picture);
  made.addEventListener("click", act);
  return made;
}

// 754 → "12:34"
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, String(whole % 60).padStart(2, "0")];
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

// -- the question before a site sees this person

async function isAllowed(box) {
  const { host, src, embed, site } = box.dataset;
  if ("allowed" in box.dataset || sites.has(host) || played.has(src ?? embed)) return true;
  const choice = await ask(site ?? host);
  if (choice === "always") {
    sites.add(host);
    post("/playback/sites", { site: host }).catch((failure) => toast(failure.message));
  }
  return Boolean(choice);
}

function ask(site) {
  const once = element("button", { class: "btn primary", value: "once" }, t("Play once"));
  const dialog = element(
    "dialog",
    { class: "ask-site", "aria-labelledby": "ask-site" },
    element("form", { method: "dialog", class: "dialog-body" },
      element("h2", { id: "ask-site" }, t("Play from {site}?", { site })),
      element("p", {}, t("That site sees your IP address.")),
      element("div", { class: "actions" }, once, element("button", { class: "btn", value: "always" }, t("Always play from {site}", { site })), element("button", { class: "btn", value: "" }, t("Cancel"))),
    ),
  );
  document.body.append(dialog);
  dialog.returnValue = "";
  dialog.showModal();
  once.focus();
  return new Promise((resolve) => dialog.addEventListener("close", () => (dialog.remove(), resolve(dialog.returnValue))));
}

// -- positions

const followed = new Set();

// Stores the position of a recording now and then, so that any device continues there.
function follow(media, about) {
  const one = { media, about, kept: about.start ?? 0, at: performance.now() };
  const save = () => {
    const ended = media.ended && Number.isFinite(media.duration);
    const seconds = Math.floor(ended ? media.duration : media.currentTime);
    if (!about.entry || (Math.abs(seconds - one.kept) < WORTH && !ended)) return;
    const before = one.kept;
    [one.kept, one.at] = [seconds, performance.now()];
    const duration = Number.isFinite(media.duration) ? Math.floor(media.duration) : 0;
    // What doesn't arrive is sent again with the next position.
    post("/playback", { entry: about.entry, url: about.src, seconds, duration }, true).catch(() => (one.kept = before));
  };
  one.save = save;
  media.addEventListener("timeupdate", () => performance.now() - one.at > PAUSE && save());
  media.addEventListener("pause", save);
  media.addEventListener("ended", save);
  followed.add(one);
  return one;
}

const saveAll = () => followed.forEach((one) => one.save());

async function findStart(about) {
  if (!about.entry) return 0;
  return (await post("/playback/start", { url: about.src }).catch(() => null))?.seconds ?? 0;
}

// -- the bar

let bar = null;
const audio = new Audio();
audio.preload = "none";
// The recording in the bar: its address, title, source, entry and page.
let now = null;
let following = null;
let sleeping = 0;
let sleepsAtEnd = false;
const parts = {};

document.head.append(element("link", { rel: "stylesheet", href: meta.dataset.playerStyle }));

function makeBar() {
  parts.play = button("", icon("play"), toggle, "play");
  parts.title = element("a", { dir: "auto", "data-stream": "" });
  parts.source = element("span", { class: "dim small", dir: "auto" });
  parts.passed = element("span", { class: "small num" });
  parts.left = element("span", { class: "small num" });
  parts.seek = element("input", { type: "range", min: 0, max: 1, step: 1, "aria-label": t("Position") });
  parts.seek.addEventListener("input", () => seek(Number(parts.seek.value)));
  // Shortcuts don't work while a field has the focus.
  parts.seek.addEventListener("pointerup", () => parts.seek.blur());
  parts.rate = choice(t("Speed"), RATES.map((rate) => [rate, `${rate}×`]), (value) => setRate(Number(value)));
  const minutes = MINUTES.map((count) => [count, tn("In {n} minute", "In {n} minutes", count)]);
  parts.sleep = choice(t("Sleep timer"), [["", t("Off")], ...minutes, ["end", t("At the end")]], setSleep);
  parts.chapters = choice(t("Chapters"), [], (value) => seek(Number(value)));
  bar = element(
    "section",
    { class: "playbar", "aria-label": t("Player") },
    element("div", { class: "now" }, parts.title, parts.source),
    element("div", { class: "skips" },
      button(t("Back 15 seconds"), element("span", {}, `−${BACK}`), () => step(-BACK)),
      parts.play,
      button(t("Forward 30 seconds"), element("span", {}, `+${FORWARD}`), () => step(FORWARD)),
    ),
    element("div", { class: "seek" }, parts.passed, parts.seek, parts.left),
    element("div", { class: "choices" }, parts.chapters.parentElement, parts.rate.parentElement, parts.sleep.parentElement),
    (parts.more = button(t("More"), icon("more"), unfold, "tool more")),
    button(t("Close the player"), icon("close"), close, "tool close"),
  );
  parts.more.setAttribute("aria-expanded", "false");
  document.body.append(bar);
  new ResizeObserver(makeRoom).observe(bar);
  addEventListener("resize", makeRoom);
}

// On a phone, the choices are folded.
function unfold() {
  parts.more.setAttribute("aria-expanded", bar.classList.toggle("unfolded"));
}

// The page is as much shorter as the bar is high; on a phone the tabs stay below the bar.
function makeRoom() {
  root.style.setProperty("--playbar", bar.isConnected ? `${bar.offsetHeight}px` : "0px");
  root.style.setProperty("--below-playbar", `${document.querySelector(".tabs")?.offsetHeight ?? 0}px`);
  root.classList.toggle("has-player", bar.isConnected);
}

function choice(label, options, act) {
  const list = element("select", { "aria-label": label }, ...options.map(([value, text]) => element("option", { value }, text)));
  list.addEventListener("change", () => (act(list.value), list.blur()));
  element("label", { title: label }, element("span", { class: "small dim" }, label), list);
  return list;
}

function setRate(rate) {
  audio.defaultPlaybackRate = audio.playbackRate = rate;
  localStorage.setItem(RATE, rate);
}

function setSleep(value) {
  clearTimeout(sleeping);
  sleepsAtEnd = value === "end";
  if (Number(value)) sleeping = setTimeout(sleep, Number(value) * 60000);
  parts.sleep.parentElement.classList.toggle("on", Boolean(value));
  say(value ? t("Sleep timer is on") : t("Sleep timer is off"));
}

function sleep() {
  audio.pause();
  parts.sleep.value = "";
  parts.sleep.parentElement.classList.remove("on");
}

const toggle = () => (audio.paused ? play() : audio.pause());
const length = () => (Number.isFinite(audio.duration) ? audio.duration : (now?.duration ?? 0));

function step(by) {
  seek(audio.currentTime + by);
}

function seek(second) {
  audio.currentTime = Math.max(0, length() ? Math.min(second, length()) : second);
  show();
  keep();
}

// Browsers may refuse to play until the next click.
const play = () => audio.play().catch((failure) => failure.name === "NotAllowedError" || failure.name === "AbortError" || lost());

function lost() {
  if (now) toast(t("{site} didn't send this recording. Try again, or download it.", { site: now.host }));
}

function show() {
  if (!now) return;
  const [at, end] = [audio.currentTime, length()];
  parts.passed.textContent = clock(at);
  parts.left.textContent = end ? `−${clock(end - at)}` : "";
  parts.seek.disabled = !end;
  parts.seek.max = Math.floor(end) || 1;
  parts.seek.value = Math.floor(at);
  parts.seek.setAttribute("aria-valuetext", end ? t("{at} of {end}", { at: clock(at), end: clock(end) }) : clock(at));
  const chapter = (now.chapters ?? []).findLast(([second]) => second <= at);
  parts.chapters.value = chapter ? chapter[0] : "";
  showSystem();
}

// The keys of the keyboard and the lock screen.
function showSystem() {
  const session = navigator.mediaSession;
  if (!session) return;
  session.playbackState = audio.paused ? "paused" : "playing";
  if (Number.isFinite(audio.duration)) session.setPositionState({ duration: audio.duration, position: Math.min(audio.currentTime, audio.duration), playbackRate: audio.playbackRate });
}

function tellSystem() {
  const session = navigator.mediaSession;
  if (!session) return;
  const artwork = now.picture ? [{ src: now.picture }] : [];
  session.metadata = new MediaMetadata({ title: now.title, artist: now.source, artwork });
  const acts = { play, pause: () => audio.pause(), stop: close, seekbackward: ({ seekOffset }) => step(-(seekOffset ?? BACK)), seekforward: ({ seekOffset }) => step(seekOffset ?? FORWARD), seekto: ({ seekTime }) => seek(seekTime) };
  for (const [name, act] of Object.entries(acts)) session.setActionHandler(name, act);
}

// Shows in the page what the bar plays.
function mark() {
  const playing = Boolean(now) && !audio.paused;
  if (now) name(parts.play, playing, now.title);
  for (const box of document.querySelectorAll(".player.audio")) {
    const mine = box.dataset.src === now?.src;
    box.classList.toggle("current", mine);
    name(box.querySelector(".play"), mine && playing, box.dataset.title);
  }
}

function name(made, playing, title) {
  const said = isolate(title);
  const label = playing ? t("Pause: {title}", { title: said }) : t("Play: {title}", { title: said });
  made.setAttribute("aria-label", label);
  made.title = label;
  made.querySelector("use").setAttribute("href", `${sprite}#${playing ? "pause" : "play"}`);
}

// Of the session: a player ends with it, also where nobody pressed "Log out".
const session = () => document.getElementById("toasts")?.dataset.mark?.split(".")[0] ?? "";

function keep() {
  if (now) sessionStorage.setItem(KEY, JSON.stringify({ ...now, who: session(), at: audio.currentTime, playing: !audio.paused, duration: length() }));
}

function showChapters(chapters) {
  const options = chapters.map(([second, text]) => element("option", { value: second }, `${clock(second)} ${text}`));
  parts.chapters.replaceChildren(element("option", { value: "" }, "–"), ...options);
  parts.chapters.parentElement.hidden = !chapters.length;
}

// Chapters in a file of their own, which a job fetches when an episode is opened for the first time.
async function bringChapters(about, pause = 1000) {
  try {
    const response = await fetch(`/entries/${about.entry}/chapters`);
    const { chapters } = response.ok ? await response.json() : {};
    if (now?.src !== about.src) return;
    if (chapters) return (now.chapters = chapters), showChapters(chapters);
    if (response.ok && pause < 20000) setTimeout(bringChapters, pause, about, pause * 2);
  } catch {
    // Offline: they are there at the next visit.
  }
}

function begin(about, start) {
  if (!bar) makeBar();
  if (!bar.isConnected) document.body.append(bar);
  following?.save();
  followed.delete(following);
  now = about;
  parts.title.textContent = about.title;
  about.page ? parts.title.setAttribute("href", about.page) : parts.title.removeAttribute("href");
  parts.source.textContent = about.source;
  showChapters(about.chapters ?? []);
  audio.src = about.src;
  setRate(Number(localStorage.getItem(RATE)) || 1);
  parts.rate.value = audio.playbackRate;
  audio.currentTime = start;
  following = followAudio(about, start);
  tellSystem();
  makeRoom();
  show();
  mark();
}

// The bar's one element plays all recordings, so that its listeners are set only once.
function followAudio(about, start) {
  if (following) {
    Object.assign(following.about, { entry: undefined, duration: undefined, ...about });
    [following.kept, following.at] = [start, performance.now()];
    followed.add(following);
    return following;
  }
  return follow(audio, { ...about, start });
}

function close() {
  audio.pause();
  saveAll();
  now = null;
  sessionStorage.removeItem(KEY);
  audio.removeAttribute("src");
  clearTimeout(sleeping);
  bar.remove();
  makeRoom();
  mark();
}

for (const kind of ["timeupdate", "durationchange", "seeked", "ratechange"]) audio.addEventListener(kind, show);
for (const kind of ["play", "pause", "ended"]) audio.addEventListener(kind, () => (mark(), show(), keep()));
audio.addEventListener("timeupdate", keep);
audio.addEventListener("error", () => now && !audio.paused && lost());
audio.addEventListener("ended", () => sleepsAtEnd && setSleep(""));
addEventListener("pagehide", () => (keep(), saveAll()));
document.addEventListener("visibilitychange", () => document.hidden && saveAll());
document.addEventListener("htmx:after:swap", () => (mark(), bar && makeRoom()));
// Nobody else's page shows what this person heard.
document.addEventListener("submit", ({ target }) => target.matches('[action="/logout"]') && now && close(), true);

// -- what is clicked

// The moments that the text names, with the words around them.
function findChapters(box) {
  const found = new Map();
  for (const link of box.closest(".article")?.querySelectorAll(".prose .moment") ?? []) {
    const line = link.closest("li, p, td, dd, h1, h2, h3, h4, h5, h6, div");
    const words = (line?.querySelectorAll(".moment").length === 1 ? line.textContent : lineAround(link)).replace(link.textContent, "");
    found.set(Number(link.dataset.at), words.replace(/^[\s\p{P}]+|[\s([–-]+$/gu, "").slice(0, 80));
  }
  return [...found].sort(([one], [other]) => one - other);
}

// The text from a link to the next line.
function lineAround(link) {
  let words = "";
  for (let node = link.nextSibling; node && !node.matches?.("br, .moment, p, li"); node = node.nextSibling) words += node.textContent;
  return words;
}

function describe(box) {
  const { src, title, source, entry, host } = box.dataset;
  const picture = box.querySelector("img[src]")?.src;
  return { src, title, source, entry, host, picture, page: entry && `/entries/${entry}`, chapters: findChapters(box) };
}

async function start(box, at) {
  if (!(await isAllowed(box))) return;
  const about = describe(box);
  played.set(about.src, true);
  for (const video of document.querySelectorAll(".player video")) video.pause();
  if (box.dataset.medium === "video") return startVideo(box, about, at);
  if (now?.src === about.src) {
    if (at === undefined) return toggle();
    seek(at);
    return play();
  }
  begin(about, at ?? (await findStart(about)));
  if ("chapters" in box.dataset && !about.chapters.length) bringChapters(about);
  await play();
}

async function startVideo(box, about, at) {
  const video = element("video", { controls: "", playsinline: "", poster: about.picture ?? null, "aria-label": about.title });
  const begins = at ?? (await findStart(about));
  audio.pause();
  box.querySelector("img")?.remove();
  box.querySelector(".play")?.replaceWith(video);
  box.classList.add("open");
  video.addEventListener("play", () => audio.pause());
  follow(video, { ...about, start: begins });
  video.src = about.src;
  video.currentTime = begins;
  video.focus();
  await video.play().catch((failure) => failure.name === "NotSupportedError" && toast(t("{site} didn't send this recording. Try again, or download it.", { site: about.host })));
}

function act(from) {
  const link = from?.closest(".moment");
  if (from && !link) return void start(from.closest(".player"));
  if (!link && now) return void toggle();
  const box = link ? link.closest(".article")?.querySelector(".player") : document.querySelector("#article .player, .row[aria-current] .player");
  if (!box) return false;
  const video = box.querySelector("video:not(.nojs)");
  if (!video) return void start(box, link ? Number(link.dataset.at) : undefined);
  if (link) video.currentTime = Number(link.dataset.at);
  link || video.paused ? video.play() : video.pause();
}

async function embed(from) {
  const box = from?.closest(".embed") ?? document.querySelector("#article .embed");
  if (!box || !(await isAllowed(box))) return;
  played.set(box.dataset.embed, true);
  audio.pause();
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-popups allow-presentation");
  frame.setAttribute("allow", "autoplay; fullscreen; picture-in-picture");
  frame.setAttribute("referrerpolicy", "strict-origin");
  frame.title = box.dataset.title;
  frame.src = box.dataset.embed;
  box.replaceChildren(frame);
  frame.focus();
}

function resume() {
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  if (now || !kept) return;
  const { at, playing, who, ...about } = kept;
  if (who !== session()) return sessionStorage.removeItem(KEY);
  played.set(about.src, true);
  begin(about, at);
  if (playing) play();
}

register({
  play: act,
  embed,
  "play-back": () => (now ? step(-BACK) : false),
  "play-forward": () => (now ? step(FORWARD) : false),
  "play-resume": resume,
});
