// The only file that may turn text into elements or code (H14). HTML reaches the page by htmx alone, from
// this server alone; code never: htmx's own evaluation is replaced by a refusal.
const allow = { createHTML: (html) => html, createScript: () => "", createScriptURL: () => "/push.js" };
const policy = globalThis.trustedTypes ? trustedTypes.createPolicy("eventr", allow) : allow;

// The one script that is named by a script.
export const worker = () => policy.createScriptURL("");

function refuse() {
  return { call() { throw new Error("htmx attributes that contain code are disabled"); } };
}

export function csrf() {
  return document.querySelector('meta[name="csrf-token"]')?.content ?? "";
}

htmx.registerExtension("eventr", {
  init: (api) => api.initSecurity(policy, refuse, refuse),
  htmx_config_request: (element, { ctx }) => { ctx.request.headers["X-CSRF-Token"] = csrf(); },
});
