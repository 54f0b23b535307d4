// Names in sentences. One that runs in the other direction would scramble the words around it. As in
// app/web/view/i18n.py.
const FOREIGN = document.dir === "rtl" ? /\p{Script=Latin}|\p{Script=Cyrillic}/u : /\p{Script=Arabic}|\p{Script=Hebrew}/u;

export const isolate = (name) => (FOREIGN.test(name) ? `\u2068${name}\u2069` : name);
