// The zone of this device, so that the server shows its times.
// To ask for it takes longer than all else that is done at the start: behind the first thing that somebody does.
const later = window.requestIdleCallback ?? setTimeout;

function tell() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes(`zone=${zone}`)) {
    document.cookie = `zone=${zone}; path=/; max-age=34560000; samesite=lax`;
  }
}

for (const kind of ["pointerdown", "keydown", "pagehide"]) {
  addEventListener(kind, () => (kind === "pagehide" ? tell() : later(tell)), { once: true });
}
