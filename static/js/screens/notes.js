// Highlights: selecting text in an article shows a bar to highlight it, to write about it, or to share it.
import { post } from "../net.js";
import { openId, swap } from "../panes.js";
import { say, toast } from "../toast.js";
import { t } from "../words.js";

const CONTEXT = 64;
const LONGEST = 5000;
let bar;

const hide = () => (bar?.remove(), (bar = null));

// The text of the article, and the passage that is selected in it; null if nothing is.
function chosen() {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  const start = range.startContainer;
  const prose = (start.nodeType === 1 ? start : start.parentElement)?.closest("#article .article > .prose");
  if (!prose?.contains(range.endContainer) && !prose?.isSameNode(range.endContainer)) return null;
  const exact = range.toString().trim();
  if (!exact || exact.length > LONGEST) return null;
  const before = document.createRange();
  const after = document.createRange();
  before.selectNodeContents(prose);
  after.selectNodeContents(prose);
  before.setEnd(range.startContainer, range.startOffset);
  after.setStart(range.endContainer, range.endOffset);
  const prefix = before.toString().trimEnd().slice(-CONTEXT);
  const suffix = after.toString().trimStart().slice(0, CONTEXT);
  return { fields: { exact, prefix, suffix }, box: range.getBoundingClientRect() };
}

function show() {
  const found = chosen();
  if (!found) return hide();
  if (!bar) document.body.append((bar = build()));
  bar.passage = found.fields;
  const { width, height } = bar.getBoundingClientRect();
  const left = Math.min(Math.max(8, found.box.left + (found.box.width - width) / 2), innerWidth - width - 8);
  const above = found.box.top - height - 8;
  Object.assign(bar.style, { left: `${left}px`, top: `${above > 8 ? above : Math.min(found.box.bottom + 8, innerHeight - height - 8)}px` });
}

function build() {
  const box = document.createElement("div");
  box.className = "quote-bar";
  box.setAttribute("role", "toolbar");
  box.setAttribute("aria-label", t("Selected text"));
  for (const [words, act] of [[t("Highlight"), highlight], [t("Note"), write], [t("Share"), share]]) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "btn small", textContent: words });
    // Keeps the selection.
    button.addEventListener("pointerdown", (event) => event.preventDefault());
    button.addEventListener("click", () => act(box.passage));
    box.append(button);
  }
  return box;
}

async function store(passage) {
  const id = openId();
  hide();
  const answer = await post(`/entries/${id}/highlights`, passage).catch((failure) => toast(failure.message));
  if (!answer?.quote || openId() !== id) return null;
  const pane = document.getElementById("article");
  const top = pane.scrollTop;
  const page = scrollY;
  await swap(location.pathname + location.search);
  pane.scrollTop = top;
  scrollTo(0, page);
  getSelection().removeAllRanges();
  say(answer.text);
  return answer.quote;
}

const highlight = (passage) => store(passage);

async function write(passage) {
  const quote = await store(passage);
  const item = quote && document.querySelector(`#notes a[href="#hl-${quote}"]`)?.closest("li");
  if (!item) return;
  item.querySelector("details").open = true;
  item.querySelector("textarea").focus();
}

function share({ exact }) {
  const query = new URLSearchParams({ entry: openId(), note: `“${exact.slice(0, 2000)}”` });
  location.assign(`/compose?${query}`);
}

// What is opened is written in at once; otherwise its letters would be shortcuts.
document.addEventListener("click", ({ target }) => {
  const box = target.closest("#notes summary")?.parentNode;
  box?.addEventListener("toggle", () => box.open && box.querySelector("textarea").focus(), { once: true });
});
document.addEventListener("pointerup", () => setTimeout(show));
document.addEventListener("keyup", ({ key, shiftKey }) => (shiftKey || key === "Shift") && show());
document.addEventListener("selectionchange", () => getSelection().isCollapsed && hide());
addEventListener("scroll", () => bar && show(), { capture: true, passive: true });
// Only the bar closes then, and not the article.
addEventListener("keydown", (event) => event.key === "Escape" && bar && (hide(), event.stopImmediatePropagation()), true);
// What was selected before this script came.
show();
