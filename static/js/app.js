// Where it begins: every screen has the keys, the messages and the help; the reader has the rest.
import "./trusted.js";
import "./zone.js";
import { act, later, register, to } from "./actions.js";
import * as counts from "./counts.js";
import * as focus from "./focus.js";
import * as keys from "./keys.js";
import { offline } from "./net.js";
import * as reader from "./reader.js";
import * as toasts from "./toast.js";
import * as extras from "./extras.js";
import { when, whenOpen } from "./panes.js";

const failed = () => toasts.toast(offline());

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
  "go-starred": to("/read/starred"),
  "go-settings": to("/settings"),
  "go-following": to("/read/following"),
  "go-shares": to("/read/shares"),
  "go-people": to("/people"),
  "go-discover": to("/discover"),
  "go-notifications": to("/notifications"),
  "go-profile": to("/me"),
});
later("help", ["help"], failed);
later("jump", ["jump"], failed);
later("chip", ["chip"], () => {});

document.documentElement.classList.add("js");
toasts.start();
keys.start(act);
extras.start(act);
if (document.querySelector(".reader")) {
  register(reader.actions);
  later("refresh", ["refresh"], failed, (action) => when("stream", action));
  later("tree", ["tree-next", "tree-previous", "tree-open", "tree-expand", "next-folder", "previous-folder"], failed);
  later("share", ["share", "share-note", "chain", "like", "comments"], failed, whenOpen);
  later("share", ["share-send"], failed);
  later("tags", ["tag"], failed, whenOpen);
  later("tags", ["tag-send"], failed);
  later("entry", ["original-background", "mail", "copy-link"], failed, whenOpen);
  later("entry", ["full-screen", "text-larger", "text-smaller"], failed);
  later("agree", ["agree"], () => {});
  focus.start();
  reader.start();
} else if (document.getElementById("import-chip") && !document.getElementById("job")) {
  counts.follow();
}
