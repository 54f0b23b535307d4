// The guard of pages that the browser keeps for its Back button (app/web/security/kept_pages.py): a page of a session
// that has ended shows nothing. Runs before all other scripts.
const root = document.documentElement;
const { mark = "", cookies = "" } = document.getElementById("toasts")?.dataset ?? {};
const [marks, proof] = cookies.split(" ");
const PLAYER = "eventr.player";
let played = false;
let left = false;

const read = (name) => document.cookie.split("; ").find((one) => one.startsWith(`${name}=`))?.slice(name.length + 1);

// Nothing is seen while the page is loaded again.
function leave() {
  left = true;
  root.style.display = "none";
  location.reload();
}

// The session may have been ended on another device, which no cookie tells. Offline, the page asks when it can.
async function check() {
  const answer = await fetch("/api/session", { cache: "no-store", headers: { Accept: "application/json" } }).catch(() => null);
  if (answer?.status === 401) leave();
}

if (mark) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${proof}=${mark.split(".")[0]}.${Date.now().toString(36)}; path=/; samesite=lax${secure}`;
  addEventListener("pagehide", (event) => {
    if (left) return event.stopImmediatePropagation();
    played = PLAYER in sessionStorage;
    if (event.persisted) root.style.visibility = "hidden";
  });
  addEventListener("online", check);
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    // What plays goes on in a new page only.
    if (read(marks) !== mark || played || PLAYER in sessionStorage) {
      event.stopImmediatePropagation();
      return leave();
    }
    root.style.visibility = "";
    check();
  });
}
