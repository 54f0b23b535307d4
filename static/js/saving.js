// Forms that save each change at once: what was refused is put back, or marked if it was typed.
const isChoice = (one) => one.matches("[type=checkbox], [type=radio], select");
const value = (one) => (one.matches("select") ? one.value : one.checked);
const choices = (form) => new Map([...form.elements].filter(isChoice).map((one) => [one, value(one)]));

export function watch(form, changed = () => {}) {
  let kept = choices(form);
  const sent = new WeakMap();
  form.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    sent.set(ctx, choices(form));
    // A refused name of something new isn't tried again with other changes.
    for (const one of form.querySelectorAll("[data-apart][aria-invalid]")) {
      if (one !== document.activeElement) ctx.request.body.delete(one.name);
    }
  });
  form.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    const now = sent.get(ctx);
    if (ctx.response.status < 400) {
      kept = now;
      // Later typing stays.
      const body = new URLSearchParams(ctx.request.body);
      for (const one of form.querySelectorAll("[data-apart]")) if (one.value === body.get(one.name)) one.value = "";
      return;
    }
    const wrong = form.elements[form.querySelector("#saved [data-field]")?.dataset.field];
    if (wrong?.matches?.(".input:not(select)")) return wrong.setAttribute("aria-invalid", "true");
    for (const [one, state] of choices(form)) {
      // What was changed since then is sent next.
      if (state === now.get(one)) one[one.matches("select") ? "value" : "checked"] = kept.get(one) ?? one.defaultChecked;
    }
    changed();
  });
  form.addEventListener("input", ({ target }) => target.removeAttribute("aria-invalid"));
}
