"""Commands, settings and files that ``deploy/`` names exist, and systemd accepts the units."""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import cli, config
from app.models.feeds import ip_addresses
from tests.support.imports import REPO

DEPLOY = REPO / "deploy"
UNITS = DEPLOY / "systemd"
#: The program that the units start.
PROGRAM = "/opt/eventr/bin/eventr"
PROCESSES = {"web", "manager", "controller", "updater"}
#: Units of servers that have more than one process of their kind, or none: unit and command.
FURTHER = {"search": "search serve", "search-standby": "search standby"}
#: The highest exposure that `systemd-analyze security` may report, in tenths.
EXPOSURE = 20


def _deployed() -> Iterator[Path]:
    return (path for path in sorted(DEPLOY.rglob("*")) if path.is_file())


def test_deploy_has_files_for_systemd_and_containers() -> None:
    names = {str(path.relative_to(DEPLOY)) for path in _deployed()}
    assert {f"systemd/eventr-{name}.service" for name in (*PROCESSES, *FURTHER, "migrate")} <= names
    assert {"Containerfile", "compose.yaml", "Caddyfile", "systemd/eventr.env"} <= names


@pytest.mark.parametrize("path", [*_deployed(), REPO / "docs/production.md"], ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    text = path.read_text("utf-8")
    named = set(re.findall(r"\bEVENTR_[A-Z0-9_]*[A-Z0-9]\b(?!_?[<*…])", text))
    assert config.find_unknown_settings(dict.fromkeys(named, "")) == []


def test_the_example_settings_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (UNITS / "eventr.env").read_text("utf-8").splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    read = config.Settings.from_env()
    assert read.base_url == "https://reader.example.org"
    assert read.trusted_proxies == 1


# -- systemd


def test_each_unit_starts_its_command() -> None:
    for path in UNITS.glob("*.service"):
        (start,) = re.findall(r"^ExecStart=(.+)$", path.read_text("utf-8"), re.MULTILINE)
        name = path.stem.removeprefix("eventr-")
        command = FURTHER.get(name, name)
        assert start == f"{PROGRAM} {command}"
        assert command.split()[0] in cli.COMMANDS
    target = (UNITS / "eventr.target").read_text("utf-8")
    assert set(re.findall(r"eventr-(\w+)\.service", target)) == PROCESSES


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the units that starts an existing program."""
    folder = tmp_path / "units"
    shutil.copytree(UNITS, folder)
    for path in folder.glob("*.service"):
        path.write_text(path.read_text("utf-8").replace(PROGRAM, "/bin/true"))
    return folder


def _analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *words], capture_output=True, text=True, check=False
    )


def _systemd() -> int:
    """Return the version of systemd, or 0 without systemd: then only the tests above check the units."""
    if shutil.which("systemd-analyze") is None:
        return 0
    found = re.search(r"\d+", _analyze("--version").stdout)
    return int(found[0]) if found else 0


SYSTEMD = _systemd()
#: The first version that can rate unit files without installing them.
OFFLINE = 250


def test_systemd_accepts_the_units(installed: Path) -> None:
    if not SYSTEMD:
        return
    units = [str(path) for path in sorted(installed.iterdir()) if path.is_file() and path.suffix != ".env"]
    done = _analyze("verify", *units)
    assert (done.returncode, done.stderr) == (0, "")
    (installed / "eventr-web.service").write_text("[Service]\nExecStart=/bin/true\nSuchASetting=no\n")
    assert "SuchASetting" in _analyze("verify", str(installed / "eventr-web.service")).stderr


@pytest.mark.parametrize("process", sorted({*PROCESSES, *FURTHER}))
def test_each_process_is_hardened(process: str, installed: Path) -> None:
    if SYSTEMD < OFFLINE:
        return
    unit = str(installed / f"eventr-{process}.service")
    limit = f"--threshold={EXPOSURE}"
    assert _analyze("security", "--offline=yes", limit, unit).returncode == 0
    shutil.rmtree(installed / "eventr-.service.d")
    assert _analyze("security", "--offline=yes", limit, unit).returncode != 0, "the drop-in hardens it"


def _read_networks(option: str, text: str) -> list[ip_addresses.Network]:
    rows = re.findall(rf"^{option}=(.*)$", text, re.MULTILINE)
    return [network for row in rows for network in ip_addresses.parse_networks(row)]


def _find_open(denied: list[ip_addresses.Network]) -> list[ip_addresses.Network]:
    """Return the special networks that the kernel would let through."""
    whole_v6 = ipaddress.IPv6Network("::/0")
    special = [
        *ip_addresses.SPECIAL_V4,
        *ip_addresses.SPECIAL_V6,
        *whole_v6.address_exclude(ip_addresses.GLOBAL_V6),
    ]
    return [s for s in special if not any(s.version == d.version and s.subnet_of(d) for d in denied)]


def test_S14_the_kernel_keeps_workers_from_special_networks() -> None:
    """The second wall has the same stones as the first, and only this machine's own servers are let in."""
    text = (UNITS / "eventr-manager.service").read_text("utf-8")
    denied, allowed = _read_networks("IPAddressDeny", text), _read_networks("IPAddressAllow", text)
    assert _find_open(denied) == []
    assert not [d for d in denied if ip_addresses.is_public(d[0]) or ip_addresses.is_public(d[-1])]
    assert [str(a) for a in allowed] == ["127.0.0.1/32", "127.0.0.53/32", "::1/128"]


@pytest.mark.parametrize("gap", ["169.254.0.0/16", "8000::/1", "2002::/16"])
def test_S14_a_gap_in_the_second_wall_is_seen(gap: str) -> None:
    text = (UNITS / "eventr-manager.service").read_text("utf-8")
    assert _find_open(_read_networks("IPAddressDeny", text.replace(gap, ""))) != []


def test_S14_no_unit_opens_other_kinds_of_sockets() -> None:
    drop_ins = "".join(p.read_text("utf-8") for p in sorted(UNITS.rglob("*.conf")))
    assert re.findall(r"^RestrictAddressFamilies=(.+)$", drop_ins, re.MULTILINE) == [
        "AF_INET AF_INET6 AF_UNIX"
    ]
    assert not [p for p in UNITS.glob("*.service") if "RestrictAddressFamilies" in p.read_text("utf-8")]


# -- containers


@pytest.fixture(scope="module")
def compose() -> Any:
    """The compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


def test_compose_runs_all_processes_with_stores_and_a_proxy(compose: Any) -> None:
    services = compose["services"]
    assert set(services) == {*PROCESSES, "mongodb", "redis", "caddy"}
    for name in PROCESSES:
        assert services[name]["command"] == [name]
        assert set(services[name]["depends_on"]) == {"mongodb", "redis"}
    assert "--replSet" in services["mongodb"]["command"]
    assert services["redis"]["command"][-1] == "noeviction"


def test_only_the_proxy_publishes_ports(compose: Any) -> None:
    services = compose["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["caddy"]
    assert compose["networks"]["stores"] == {"internal": True}
    for store in ("mongodb", "redis"):
        assert services[store]["networks"] == ["stores"]
    assert services["caddy"]["networks"] == ["outside"]


def test_volumes_and_files_in_the_compose_file_exist(compose: Any) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).is_file(), volume
    build = compose["services"]["web"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_the_image_copies_everything_that_a_build_reads() -> None:
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    }
    assert all((REPO / name).exists() for name in copied)
    packages = {"app", "workers", "queue_manager", "controller", "static", "requirements"}
    assert packages | {"pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "wsgi.py"} == copied
    assert re.search(r"^USER eventr$", text, re.MULTILINE)
