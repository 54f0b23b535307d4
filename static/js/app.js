// The entry point: every page has shortcuts, messages and help; the reader has the rest.
import "./kept.js";
import "./trusted.js";
import "./zone.js";
import { act, later, register, to } from "./actions.js";
import * as counts from "./counts.js";
import * as focus from "./focus.js";
import * as keys from "./keys.js";
import * as reader from "./reader.js";
import * as side from "./side.js";
import * as toasts from "./toast.js";
import * as treeview from "./treeview.js";
import * as extras from "./extras.js";
import { chosen, when, whenOpen } from "./panes.js";

const quiet = { fail() {} };
const ofList = { gate: (action) => when("stream", action) };
const ofEntry = { gate: whenOpen, target: chosen };

function search() {
  const field = document.getElementById("q");
  if (!field) return location.assign("/search");
  field.focus();
  field.select();
}

register({
  search,
  "go-tags": to("/tags"),
  add: to("/add"),
  undo: toasts.undoLast,
  "go-home": to("/"),
  "go-all": to("/read/all"),
  "go-today": to("/read/today"),
  "go-starred": to("/read/starred"),
  "go-recent": to("/read/recent"),
  "go-settings": to("/settings"),
  "go-following": to("/read/following"),
  "go-shares": to("/read/shares"),
  "go-people": to("/people"),
  "go-discover": to("/discover"),
  "go-notifications": to("/notifications"),
  "go-profile": to("/me"),
});
later("help", ["help"]);
later("jump", ["jump"]);
later("type", ["look-text", "theme-next", "theme-set"]);
later("chip", ["chip"], quiet);
later("player", ["play", "play-back", "play-forward", "embed"]);
later("player", ["play-resume"], quiet);

document.documentElement.classList.add("js");
if (navigator.share) document.documentElement.classList.add("sends");
toasts.start();
keys.start(act);
extras.start(act);
// What played on the page before goes on here.
if (sessionStorage.getItem("eventr.player")) act("play-resume");
if (document.getElementById("tree")) {
  register({ tree: side.toggle, "next-feed": () => reader.feed(1), "previous-feed": () => reader.feed(-1) });
  later("tree", ["tree-next", "tree-previous", "tree-open", "tree-expand", "next-folder", "previous-folder"]);
  later("growing", ["grow"], { fail: () => reader.grows() });
  treeview.start();
  side.start();
}
if (document.querySelector(".reader")) {
  register(reader.actions);
  later("refresh", ["refresh"], ofList);
  later("marking", ["mark-all", "mark-above", "mark-below", "hide"], ofList);
  later("share", ["share", "share-note", "chain", "like"], ofEntry);
  later("share", ["share-send", "share-paint"]);
  later("talk", ["comment", "comments"], ofEntry);
  later("tags", ["tag"], ofEntry);
  later("tags", ["tag-send"]);
  later("entry", ["original-background", "mail", "copy-link", "send", "print", "full-text"], ofEntry);
  later("entry", ["full-screen"]);
  later("type", ["text-larger", "text-smaller"]);
  later("look", ["view-panes", "view-list", "view-expanded"], ofList);
  later("look", ["view-send"]);
  later("agree", ["agree"], quiet);
  focus.start();
  reader.start();
} else if (document.getElementById("tree")) {
  counts.start(() => {}, reader.grow, async () => {});
}
