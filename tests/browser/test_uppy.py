"""Uppy with its tus plugin, unmodified: a file is paused, resumed, and survives a killed web server (U03)."""

from __future__ import annotations

import base64
import hashlib
import random
from pathlib import Path

import psutil
from playwright.sync_api import Browser

from tests.media.test_spooled_uploads import Web, web
from tests.support.reader import elsewhere
from tests.support.upload_client import START
from tests.support.upload_server import Eventually

__all__ = ["web"]

#: @uppy/core 6.3.1 and @uppy/tus 6.0.0 in one file, made by esbuild.
UPPY = Path(__file__).resolve().parents[1] / "support" / "tus" / "uppy.min.js"
DATA = random.Random(5).randbytes(2 << 20)
PART = 512 << 10
#: Bytes per second, so that the server is killed while it receives a part.
RATE = 2 << 20
#: Uploads the file, pauses after a quarter of it and has the server killed after half of it.
_UPLOAD = """([token, text, part]) => new Promise((resolve, reject) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const uppy = new Uppy.Uppy({ autoProceed: false });
  const steps = [];
  uppy.use(Uppy.Tus, { endpoint: "/api/v1/uploads", chunkSize: part,
    retryDelays: [100, 500, 1000, 2000, 3000, 5000], onShouldRetry: () => true,
    headers: { Authorization: `Bearer ${token}` } });
  const id = uppy.addFile({ name: "by-uppy.bin", type: "application/octet-stream", data: new Blob([bytes]) });
  uppy.on("upload-progress", async (file, { bytesUploaded, bytesTotal }) => {
    if (bytesUploaded >= bytesTotal / 4 && !steps.length) {
      steps.push("paused");
      uppy.pauseResume(id);
      await served();
      steps.push("resumed");
      uppy.pauseResume(id);
    } else if (bytesUploaded >= bytesTotal / 2 && steps.length === 2) {
      steps.push("killed");
      await kill();
    }
  });
  uppy.upload().then(({ successful, failed }) => failed.length
    ? reject(failed[0].error)
    : resolve([successful[0].uploadURL, steps]), reject);
})"""


def test_U03_F03_uppy_uploads_a_file_with_a_pause_and_a_killed_server(
    chromium: Browser, web: Web, eventually: Eventually
) -> None:
    text = base64.b64encode(DATA).decode()
    before = {child.pid for child in psutil.Process(web.pid).children()}
    page = chromium.new_page()
    page.expose_function("kill", web.kill_worker)
    page.expose_function("served", web.client.is_served)
    page.context.new_cdp_session(page).send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": RATE},
    )
    page.goto(f"http://127.0.0.1:{web.client.port}/login")
    page.evaluate(UPPY.read_text())
    url, steps = page.evaluate(_UPLOAD, [web.client.token, text, PART])
    page.close()
    assert steps == ["paused", "resumed", "killed"]
    assert before.isdisjoint(child.pid for child in psutil.Process(web.pid).children())
    upload_id = url.rpartition("/")[2]

    def seal() -> list[bytes]:
        assert web.services.sealing.seal_upload(upload_id)["state"] == "done"
        return [file.blob for file in web.services.files.list_files(web.actor) if file.name == "by-uppy.bin"]

    eventually(web.client.is_served, START)
    assert elsewhere(seal) == [hashlib.sha256(DATA).digest()]
