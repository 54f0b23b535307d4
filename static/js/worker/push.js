// Shows push notifications while no page is visible. It does nothing else: no request passes through it.
const HOME = "/notifications";
const NAME = "Eventr";
// Safari withdraws the permission if a push shows nothing; other browsers tolerate this while a page is visible.
const MUST_SHOW = /AppleWebKit/.test(navigator.userAgent) && !/Chrom/.test(navigator.userAgent);

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("push", (event) => event.waitUntil(show(read(event.data))));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(lead(event.notification.data?.url));
});
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

const windows = () => self.clients.matchAll({ type: "window", includeUncontrolled: true });

function read(data) {
  try {
    return data.json() ?? {};
  } catch {
    return {};
  }
}

async function show({ title = NAME, body = "", url = HOME, tag = "eventr", lang = "", dir = "auto", always }) {
  const seen = (await windows()).some((one) => one.visibilityState === "visible");
  if (seen && !always && !MUST_SHOW) return;
  await self.registration.showNotification(title, { body, tag, lang, dir, renotify: true, data: { url } });
}

// Brings a tab to the front that shows the page already; never navigates another tab away.
async function lead(path) {
  const { origin } = self.location;
  const url = new URL(path ?? HOME, origin);
  const goal = url.origin === origin ? url.href : origin + HOME;
  const there = (await windows()).find((one) => one.url === goal || one.url.split("#")[0] === goal);
  return there ? there.focus() : self.clients.openWindow(goal);
}

// The push service has given this browser a new address; register it only for a logged-in user with push on.
async function renew({ newSubscription }) {
  const answer = await fetch("/api/push", { headers: { Accept: "application/json" }, cache: "no-store" });
  const { mine, key, csrf } = answer.ok ? await answer.json() : {};
  if (!mine) return;
  const wish = { userVisibleOnly: true, applicationServerKey: key };
  const made = newSubscription ?? (await self.registration.pushManager.subscribe(wish));
  const { endpoint, keys } = made.toJSON();
  const body = new URLSearchParams({ csrf_token: csrf, endpoint, p256dh: keys.p256dh, auth: keys.auth });
  await fetch("/settings/devices", { method: "POST", body, headers: { Accept: "application/json" } });
}
