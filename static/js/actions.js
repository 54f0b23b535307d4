// What keys and buttons do, by the words of app/web/keyboard/keys.py; each module adds its own. Where two know a word,
// the later one is asked first. An action that has nothing to do here answers false: the key goes through.
import { offline } from "./net.js";
import { toast } from "./toast.js";
import { t } from "./words.js";

const known = new Map();

export function register(actions) {
  for (const [word, action] of Object.entries(actions)) known.set(word, [action, ...(known.get(word) ?? [])]);
}

export const act = (word) => (known.get(word) ?? []).some((action) => action() !== false);

// An action by a link of its own.
export const to = (url) => () => location.assign(url);

const failed = () => toast(offline());

// What is rare comes when it is first asked for; it registers its words and does them from then on. What is pressed
// while it comes is done then, in order, unless what it was meant for is not the target any more. A gate says when
// each word is: before its script is asked for, and when that has come.
export function later(script, words, { gate = (action) => action, target = () => {}, fail = failed } = {}) {
  let pressed = [], loaded;
  const ask = (word) => () => {
    if (loaded) return false;
    const meant = target();
    const done = gate(() => (target() === meant ? act(word) : toast(t("Nothing changed: another entry is selected now."))));
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
