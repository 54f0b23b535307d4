// Swipes over rows, and pulling at the top of a list. Loads with the first touch. The browser scrolls as always: rows
// leave only sideways movements to this script (touch-action), and nothing here prevents a movement.
import { act } from "../actions.js";
import { pane } from "../list.js";
import { post } from "../net.js";
import * as rows from "../rows.js";
import { toast } from "../toast.js";
import { t } from "../words.js";

// Pixels: at the edge of the screen the drawer and the browser's own gestures begin; a movement shows its direction;
// a swipe does its action; a long one does the other; a pull refreshes.
const [EDGE, SLOP, SHORT, LONG, PULL] = [24, 10, 72, 176, 72];
// How far a row follows the finger, and how much slower the page follows a pull.
const [MOST, DRAG] = [220, 0.5];
const still = matchMedia("(prefers-reduced-motion: reduce)");
const sprite = document.querySelector("use")?.getAttribute("href").split("#")[0];
const wanted = (which) => document.querySelector(".reader").dataset[`swipe${which}`];
const mirrored = () => document.documentElement.dir === "rtl";

let touch = null;

// -- actions

const star = (row) => row.querySelector('form[data-act="star"] button');
const isStarred = (row) => star(row)?.getAttribute("aria-pressed") === "true";

const ACTIONS = {
  read: {
    fits: (row) => Boolean(row.dataset.feed),
    icon: () => "check",
    label: (row) => (rows.isRead(row) ? t("Mark as unread") : t("Mark as read")),
    run(row) {
      const [id, read] = [row.dataset.id, !rows.isRead(row)];
      rows.setAny(id, read);
      if (!read) row.dataset.kept = "";
      toast(read ? t("Marked as read") : t("Marked as unread"), () => void rows.setAny(id, !read));
    },
  },
  star: {
    fits: (row) => Boolean(star(row)),
    icon: () => "star",
    label: (row) => (isStarred(row) ? t("Remove star") : t("Star")),
    run(row) {
      const [id, on] = [row.dataset.id, !isStarred(row)];
      rows.setStar(id, on);
      toast(on ? t("Starred") : t("Star removed"), () => void rows.setStar(id, !on));
    },
  },
  share: {
    fits: () => true,
    icon: () => "share",
    label: () => t("Share"),
    async run(row) {
      try {
        const done = await post("/entries/share", { entry: row.dataset.id });
        const undo = done.share && !done.existed && (() => post("/shares/remove", { share: done.share }).then(() => {}));
        if (undo) toast(done.text, undo);
        else toast(done.text);
      } catch (failure) {
        toast(failure.message);
      }
    },
  },
  tag: {
    fits: () => true,
    icon: () => "tag",
    label: () => t("Tag"),
    run(row) {
      rows.select(row);
      act("tag");
    },
  },
};

// -- swipes

// The action for a distance towards the end of the line; negative: towards its start.
function choose(row, distance) {
  const word = Math.abs(distance) >= LONG && wanted("Long") !== "none" ? wanted("Long") : wanted(distance > 0 ? "Right" : "Left");
  const action = ACTIONS[word];
  return action?.fits(row) ? action : null;
}

function show(row, distance) {
  const action = choose(row, distance);
  const ready = Boolean(action) && Math.abs(distance) >= SHORT;
  const back = touch.back ?? makeBack(row);
  back.classList.toggle("ready", ready);
  back.classList.toggle("from-end", distance < 0);
  back.querySelector("span").textContent = action?.label(row) ?? "";
  back.querySelector("use").setAttribute("href", action ? `${sprite}#${action.icon()}` : "");
  // Without an action the row follows only a little.
  const far = Math.min(Math.abs(distance), action ? MOST : SLOP);
  row.style.transform = `translateX(${Math.sign(distance) * far * (mirrored() ? -1 : 1)}px)`;
}

function makeBack(row) {
  const [back, label] = [document.createElement("div"), document.createElement("span")];
  const [svg, use] = ["svg", "use"].map((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
  svg.setAttribute("class", "icon");
  svg.append(use);
  back.className = "swipe-back";
  back.setAttribute("aria-hidden", "true");
  back.append(svg, label);
  row.after(back);
  row.parentElement.classList.add("swiped");
  return (touch.back = back);
}

function reset({ row, back, hint }) {
  if (row) row.style.transform = "";
  row?.parentElement?.classList.remove("swiped");
  back?.remove();
  hint?.remove();
}

// -- pulls

const refresher = () => document.querySelector('form[data-act="refresh"]');

function pull(distance) {
  if (!touch.hint) {
    touch.hint = document.createElement("p");
    touch.hint.className = "pull";
    touch.hint.setAttribute("aria-hidden", "true");
    document.getElementById("rows")?.before(touch.hint);
  }
  touch.far = distance * DRAG;
  touch.hint.style.blockSize = `${Math.min(touch.far, PULL)}px`;
  touch.hint.textContent = touch.far >= PULL ? t("Release to check for new entries") : t("Pull to check for new entries");
}

// -- touches

function begin(target, { clientX, clientY }) {
  const list = target.closest?.(".pane-list");
  if (!list || touch) return;
  const fromEdge = clientX < EDGE || clientX > innerWidth - EDGE;
  const row = !still.matches && !fromEdge ? target.closest(".row") : null;
  const top = list === pane() && list.scrollTop <= 0 && Boolean(refresher());
  if (row || top) touch = { row, top, x: clientX, y: clientY, kind: null, distance: 0 };
}

function move(event) {
  if (!touch) return;
  if (event.touches.length > 1) return end(false);
  const [{ clientX, clientY }] = event.touches;
  const [x, y] = [clientX - touch.x, clientY - touch.y];
  if (!touch.kind) {
    if (Math.max(Math.abs(x), Math.abs(y)) < SLOP) return;
    const sideways = Math.abs(x) > Math.abs(y) * 1.5;
    touch.kind = sideways && touch.row ? "swipe" : !sideways && y > 0 && touch.top ? "pull" : "scroll";
  }
  if (touch.kind === "swipe") show(touch.row, (touch.distance = x * (mirrored() ? -1 : 1)));
  else if (touch.kind === "pull") y > 0 && pane().scrollTop <= 0 ? pull(y) : end(false);
  else touch = null;
}

function end(done) {
  const ended = touch;
  touch = null;
  if (!ended?.kind) return;
  reset(ended);
  if (!done) return;
  if (ended.kind === "pull" && ended.far >= PULL) act("refresh");
  if (ended.kind !== "swipe") return;
  // A swipe is no click on the row.
  addEventListener("click", stop, { capture: true, once: true });
  setTimeout(() => removeEventListener("click", stop, { capture: true }), 50);
  const action = Math.abs(ended.distance) >= SHORT ? choose(ended.row, ended.distance) : null;
  action?.run(ended.row);
}

function stop(event) {
  event.preventDefault();
  event.stopPropagation();
}

const passive = { passive: true };
addEventListener("touchstart", (event) => (event.touches.length > 1 ? end(false) : begin(event.target, event.touches[0])), passive);
addEventListener("touchmove", move, passive);
addEventListener("touchend", () => end(true), passive);
addEventListener("touchcancel", () => end(false), passive);
// The touch that loaded this script goes on.
addEventListener("touched", (event) => begin(event.target, event.detail));
