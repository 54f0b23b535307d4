// The zone of this device, so that the server shows its times.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes(`zone=${zone}`)) {
  document.cookie = `zone=${zone}; path=/; max-age=34560000; samesite=lax`;
}
