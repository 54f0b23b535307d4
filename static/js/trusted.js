// The only file that may turn text into elements or code (H14). Only htmx inserts HTML, and only from this server;
// code is never evaluated: htmx's own evaluation is disabled.
const allow = { createHTML: (html) => html, createScript: () => "", createScriptURL: () => "/push.js" };
const policy = globalThis.trustedTypes ? trustedTypes.createPolicy("eventr", allow) : allow;

// The only script address that a script sets.
export const worker = () => policy.createScriptURL("");

function refuse() {
  return { call() { throw new Error("htmx code attributes are disabled"); } };
}

export function csrf() {
  return document.querySelector('meta[name="csrf-token"]')?.content ?? "";
}

htmx.registerExtension("eventr", {
  init: (api) => api.initSecurity(policy, refuse, refuse),
  htmx_config_request: (element, { ctx }) => { ctx.request.headers["X-CSRF-Token"] = csrf(); },
});
