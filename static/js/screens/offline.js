// Lets the browser show a page of Eventr when there is no connection. Loads with the first entry that is opened.
import { worker } from "../trusted.js";

if (isSecureContext && "serviceWorker" in navigator) navigator.serviceWorker.register(worker(), { scope: "/" }).catch(() => {});
