// Stores this device's time zone, so that the server shows local times. Reading the zone is slow, so wait for the
// user's first action and then for idle time.
const later = window.requestIdleCallback ?? setTimeout;

function tell() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes(`zone=${zone}`)) document.cookie = `zone=${zone}; path=/; max-age=34560000; samesite=lax`;
}

addEventListener("pagehide", tell);
for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => later(tell), { once: true });
