// A worker and a service worker: asks for each address by a script import where it may, and by a request.
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("message", (event) => {
  const url = event.data;
  const asked = fetch(url, { mode: "no-cors" }).catch(() => {});
  try { if (!self.registration) importScripts(url); } catch { }
  asked.then(() => event.ports[0].postMessage("done"));
});
