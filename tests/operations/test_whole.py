"""The whole of Eventr with its admin ports on, and what it costs to have them off."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.operations import ask
from tests.support.imports import REPO
from tests.support.up import Up, free_port


def test_up_prints_the_admin_ports_and_they_answer() -> None:
    port = free_port(3)
    # The path of a unix socket must be short.
    with tempfile.TemporaryDirectory(prefix="eventr-test-up-") as home:
        up = Up(Path(home), EVENTR_METRICS_LISTEN=f"127.0.0.1:{port}")
        try:
            output = up.wait_ready().output
            for number, name in enumerate(("manager", "controller", "updater")):
                assert f"http://127.0.0.1:{port + number} ({name})" in output
                assert ask.at("127.0.0.1", port + number, "/healthz").json["process"] == name
            assert up.status("/readyz") == 200
            assert up.status("/metrics") == 404
            assert up.stop() == 0
            assert ask.at("127.0.0.1", port, "/healthz").status == 0
        finally:
            up.kill()


def test_what_only_some_need_is_not_loaded_by_all() -> None:
    code = (
        "import sys, app.bootstrap.services, app.monitoring.admin_port\n"
        "import queue_manager.main, controller.main, workers.updater.updater\n"
        "from workers import registry\nregistry.load_tasks()\n"
        "print(sorted({'apprise', 'prometheus_client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
