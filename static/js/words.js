// Texts in the page's language: scripts contain the English text, the page contains the translations.
const words = JSON.parse(document.querySelector('meta[name="words"]')?.content ?? "{}");
const rules = new Intl.PluralRules(document.documentElement.lang || "en");
const KINDS = ["zero", "one", "two", "few", "many", "other"];

// 1234 → "1,234", as the server writes it.
export const number = new Intl.NumberFormat(document.documentElement.lang, { numberingSystem: "latn" }).format;

const shown = (value) => (typeof value === "number" ? number(value) : value);
const fill = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => shown(values[name]) ?? whole);

// t("{name} is gone", { name })
export const t = (text, values = {}) => fill(words[text] ?? text, values);

// tn("{n} entry", "{n} entries", n): a catalog's forms are in the order of its language's plural rules.
export function tn(one, many, n, values = {}) {
  const forms = words[one];
  const text = forms ? (forms[place(n, forms.length)] ?? forms.at(-1)) : n === 1 ? one : many;
  return fill(text, { n, ...values });
}

function place(n, count) {
  const used = KINDS.filter((kind) => rules.resolvedOptions().pluralCategories.includes(kind));
  return Math.min(used.indexOf(rules.select(n)), count - 1);
}
