// What keys and buttons do, by the words of app/web/keys.py; each module adds its own. Where two know a word,
// the later one is asked first. An action that has nothing to do here answers false: the key goes through.
import { offline } from "./net.js";
import { toast } from "./toast.js";

const known = new Map();

export function register(actions) {
  for (const [word, action] of Object.entries(actions)) known.set(word, [action, ...(known.get(word) ?? [])]);
}

export const act = (word) => (known.get(word) ?? []).some((action) => action() !== false);

// An action by a link of its own.
export const to = (url) => () => location.assign(url);

const failed = () => toast(offline());

// What is rare comes when it is first asked for; it registers its words and does them from then on. What is pressed
// while it comes is done then, in order. A gate says when each word is: before its script is asked for.
export function later(script, words, { gate = (action) => action, fail = failed } = {}) {
  let pressed = [], loaded;
  const ask = (word) => () => {
    if (loaded) return false;
    if (pressed.push(word) > 1) return;
    import(document.querySelector('meta[name="keys"]').dataset[script]).then(() => {
      loaded = true;
      pressed.forEach(act);
    }, () => {
      pressed = [];
      fail();
    });
  };
  register(Object.fromEntries(words.map((word) => [word, gate(ask(word))])));
}
