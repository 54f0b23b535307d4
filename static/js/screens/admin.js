// Live figures of the overview: requested every five seconds while the page is visible.
import { get } from "../net.js";
import { t } from "../words.js";

const EVERY = 5000;
const HEIGHT = 170;
// Chart → its figures; top: the end of its axis.
const CHARTS = {
  "chart-rate": { of: "minutes" },
  "chart-new": { of: "minutes" },
  "chart-share": { of: "minutes", top: 100 },
  "chart-busy": { of: "minutes" },
  "chart-hours": { of: "hours" },
  "chart-hours-new": { of: "hours" },
};
const plots = new Map();
const state = document.getElementById("live-state");
const language = document.documentElement.lang;
const number = new Intl.NumberFormat(language, { maximumFractionDigits: 2 });
const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: "UTC" });
let figures = null;

const keys = (figure) => [...figure.querySelectorAll(".key")];

function data(figure) {
  const rows = figures[CHARTS[figure.id].of];
  return [rows.t, ...keys(figure).map((key) => rows[key.dataset.name])];
}

// Colors come from the legend, which uses the tokens and so follows the page's theme.
const ink = (element, name = "color") => getComputedStyle(element)[name];

function line(key) {
  const stroke = ink(key.querySelector("i"), "borderTopColor");
  const dash = key.classList.contains("c-danger") ? [6, 4] : undefined;
  return { stroke, width: 2, dash, points: { show: false }, spanGaps: true };
}

function axes(figure) {
  const text = { stroke: ink(figure.querySelector(".key")), font: `12px ${ink(document.body, "fontFamily")}` };
  const grid = { stroke: ink(figure, "borderTopColor"), width: 1 };
  const common = { ...text, grid, ticks: { show: false } };
  return [
    { ...common, values: (plot, splits) => splits.map((at) => clock.format(at * 1000)), space: 70, size: 28 },
    { ...common, values: (plot, splits) => splits.map((value) => number.format(value)), size: 46 },
  ];
}

// Shows beside each name the figure under the pointer, else the newest.
function tell(figure, plot) {
  const index = plot.cursor.idx ?? plot.data[0].length - 1;
  keys(figure).forEach((key, at) => {
    const value = plot.data[at + 1][index];
    key.querySelector("b").textContent = value == null ? "–" : number.format(value);
  });
}

function draw(figure) {
  const place = figure.querySelector(".plot");
  const { top } = CHARTS[figure.id];
  plots.get(figure)?.destroy();
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (plot, low, high) => [0, top ?? Math.max(1, high * 1.1)] } },
    series: [{}, ...keys(figure).map(line)],
    axes: axes(figure),
    hooks: { setCursor: [(plot) => tell(figure, plot)] },
  };
  const plot = new uPlot(options, data(figure), place);
  plots.set(figure, plot);
  tell(figure, plot);
}

const all = () => Object.keys(CHARTS).map((id) => document.getElementById(id)).filter(Boolean);

function show() {
  for (const figure of all()) {
    const plot = plots.get(figure);
    if (!plot) draw(figure);
    else plot.setData(data(figure)), tell(figure, plot);
  }
}

function say(on, words) {
  state.className = `small ${on ? "on" : "off"}`;
  if (state.textContent !== words) state.textContent = words;
}

async function ask() {
  const answer = await get("/admin/figures");
  if (!answer) return say(false, t("Can't load the figures. Retrying…"));
  figures = answer.data;
  show();
  await renew("now");
  if (document.getElementById("twin").open) await renew("minutes");
  say(true, state.dataset.live);
}

const renew = (id) => htmx.ajax("GET", "/admin", { target: `#${id}`, source: `#${id}`, swap: "innerMorph" });

async function live() {
  if (!document.hidden) await ask();
  setTimeout(live, EVERY);
}

function again() {
  if (figures) for (const figure of all()) draw(figure);
}

live();
document.addEventListener("visibilitychange", () => document.hidden || ask());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
new ResizeObserver(() => {
  for (const [figure, plot] of plots) plot.setSize({ width: figure.querySelector(".plot").clientWidth, height: HEIGHT });
}).observe(document.getElementById("main"));
