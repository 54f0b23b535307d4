// Turns push notifications on this device on and off.
import { post } from "../net.js";
import { toast } from "../toast.js";
import { worker } from "../trusted.js";
import { t } from "../words.js";

const place = document.getElementById("push");
const able = isSecureContext && "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;

const held = async () => (await navigator.serviceWorker.getRegistration("/"))?.pushManager.getSubscription();

async function mark(text) {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function turnOn() {
  // First of all, since browsers only allow the permission prompt right after a click.
  if ((await Notification.requestPermission()) !== "granted") return show();
  await navigator.serviceWorker.register(worker(), { scope: "/" });
  const { pushManager } = await navigator.serviceWorker.ready;
  const { key } = await post("/settings/devices/key", {});
  // A new address: messages queued for this device's previous user no longer arrive.
  await (await pushManager.getSubscription())?.unsubscribe();
  const made = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }).catch(() => null);
  if (!made) return toast(t("This browser's push service isn't responding. Try again later."));
  const { endpoint, keys } = made.toJSON();
  await post("/settings/devices", { endpoint, p256dh: keys.p256dh, auth: keys.auth });
  location.reload();
}

async function turnOff() {
  await (await held())?.unsubscribe();
  await post("/settings/devices/remove", { device: place.dataset.device });
  location.reload();
}

function say(words, label, act) {
  const text = document.createElement("p");
  text.textContent = words;
  place.replaceChildren(text);
  if (!label) return;
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "btn", textContent: label });
  button.addEventListener("click", async () => {
    button.disabled = true;
    await act().catch((error) => toast(error.message));
    button.disabled = false;
  });
  place.append(button);
}

async function show() {
  if (!able) return say(t("This browser doesn't support push notifications."));
  if (Notification.permission === "denied") {
    return say(t("This browser blocks notifications from this site. Allow them in the browser settings, then reload this page."));
  }
  const endpoint = (await held())?.endpoint;
  if (endpoint && (await mark(endpoint)) === place.dataset.mark) {
    return say(t("Notifications are on for this device."), t("Turn off for this device"), turnOff);
  }
  say(t("Notifications are off for this device."), t("Turn on for this device"), turnOn);
}

if (place) {
  show();
  if (able) {
    const asked = navigator.permissions?.query({ name: "notifications" });
    asked?.then((status) => status.addEventListener("change", show)).catch(() => {});
  }
}
