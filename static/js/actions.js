// Actions of keys and buttons, by the names of app/web/keyboard/keys.py; each module registers its own. If two
// modules register a name, the later one runs first. An action that doesn't apply returns false, and the key's
// default happens.
import { offline } from "./net.js";
import { toast } from "./toast.js";
import { t } from "./words.js";

const known = new Map();

export function register(actions) {
  for (const [word, action] of Object.entries(actions)) known.set(word, [action, ...(known.get(word) ?? [])]);
}

// With the element that was clicked, if any.
export const act = (word, from) => (known.get(word) ?? []).some((action) => action(from) !== false);

// An action that opens an address.
export const to = (url) => () => location.assign(url);

const failed = () => toast(offline());

// Scripts for rare actions load on first use, then register the same names. Presses during loading run afterwards, in
// order, unless the target has changed meanwhile. A gate delays each action: before its script is requested, and
// after it has loaded.
export function later(script, words, { gate = (action) => action, target = () => {}, fail = failed } = {}) {
  let pressed = [], loaded;
  const ask = (word) => (from) => {
    if (loaded) return false;
    const meant = target();
    const done = gate(() => (target() === meant ? act(word, from) : toast(t("Nothing changed: another entry is selected now."))));
    if (pressed.push(done) > 1) return;
    import(document.querySelector('meta[name="keys"]').dataset[script]).then(() => {
      loaded = true;
      for (const one of pressed) one();
    }, () => {
      pressed = [];
      fail();
    });
  };
  register(Object.fromEntries(words.map((word) => [word, gate(ask(word))])));
}
