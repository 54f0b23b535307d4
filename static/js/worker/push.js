// Shows push notifications while no page is visible, and a page of its own instead of one that can't be loaded.
// Only requests for pages pass through it.
const HOME = "/notifications";
const NAME = "Eventr";
// Safari withdraws the permission if a push shows nothing; other browsers tolerate this while a page is visible.
const MUST_SHOW = /AppleWebKit/.test(navigator.userAgent) && !/Chrom/.test(navigator.userAgent);

// The page for times without a connection (app/web/pages/installation.py). It is the same for everyone.
const OFFLINE = "/offline";
const STORE = "offline";
const DAY = 86400000;
let offline = false;

self.addEventListener("install", (event) => {
  self.skipWaiting();
  // Push works without this page.
  event.waitUntil(keep().catch(() => {}));
});
self.addEventListener("activate", (event) => event.waitUntil(self.registration.navigationPreload?.enable()));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.mode === "navigate" && request.method === "GET") event.respondWith(navigate(event));
  else if (offline && request.destination === "style") event.respondWith(caches.match(request).then((kept) => kept ?? fetch(request)));
});
self.addEventListener("push", (event) => event.waitUntil(show(read(event.data))));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(lead(event.notification.data?.url));
});
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

const windows = () => self.clients.matchAll({ type: "window", includeUncontrolled: true });

// Stores the page and its style sheets, and forgets older ones.
async function keep() {
  const answer = await fetch(OFFLINE, { cache: "no-store" });
  if (!answer.ok || answer.redirected) return;
  const styles = (await answer.clone().text()).match(/\/static\/[\w.-]+\.css/g) ?? [];
  const store = await caches.open(STORE);
  await store.addAll(styles);
  await store.put(OFFLINE, answer);
  const wanted = [OFFLINE, ...styles];
  for (const one of await store.keys()) if (!wanted.includes(new URL(one.url).pathname)) await store.delete(one);
}

// Its language and look may have changed since.
async function refresh() {
  const kept = await caches.match(OFFLINE);
  if (!(Date.now() - Date.parse(kept?.headers.get("Date")) < DAY)) await keep();
}

async function navigate(event) {
  try {
    const answer = (await event.preloadResponse) ?? (await fetch(event.request));
    offline = false;
    event.waitUntil(refresh().catch(() => {}));
    return answer;
  } catch (failure) {
    offline = true;
    const kept = await caches.match(OFFLINE);
    if (kept) return kept;
    throw failure;
  }
}

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
