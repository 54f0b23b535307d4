"""MongoDB's cache by the memory of the machine or container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.embedded import memory

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("total", "cache"),
    [(512 * MIB, 256 * MIB), (GIB, 256 * MIB), (2 * GIB, 512 * MIB), (3 * GIB, 768 * MIB), (24 * GIB, GIB)],
)
def test_cache_is_a_quarter_of_the_memory_within_its_limits(total: int, cache: int) -> None:
    assert memory.compute_cache(total) == cache


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_without_control_groups_the_machine_counts(tmp_path: Path) -> None:
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory.find_memory(tmp_path) == machine
    _write(tmp_path / "proc/self/cgroup", "0::/user.slice/eventr.service")
    _write(tmp_path / "sys/fs/cgroup/user.slice/eventr.service/memory.max", "max")
    assert memory.find_memory(tmp_path) == machine


def test_the_lowest_limit_of_a_control_group_and_those_above_it_counts(tmp_path: Path) -> None:
    _write(tmp_path / "proc/self/cgroup", "0::/user.slice/eventr.service")
    _write(tmp_path / "sys/fs/cgroup/user.slice/memory.max", str(300 * MIB))
    _write(tmp_path / "sys/fs/cgroup/user.slice/eventr.service/memory.max", str(400 * MIB))
    assert memory.find_memory(tmp_path) == 300 * MIB


def test_the_limit_of_a_container_counts_even_if_its_path_is_that_of_the_host(tmp_path: Path) -> None:
    _write(tmp_path / "proc/self/cgroup", "0::/docker/0123abcd")
    _write(tmp_path / "sys/fs/cgroup/memory.max", str(200 * MIB))
    assert memory.find_memory(tmp_path) == 200 * MIB


def test_the_first_version_of_control_groups_is_understood(tmp_path: Path) -> None:
    _write(tmp_path / "proc/self/cgroup", "9:name=systemd:/\n5:cpu,memory:/docker/1\n0::/")
    _write(tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes", str(0x7FFFFFFFFFFFF000))
    _write(tmp_path / "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", str(100 * MIB))
    assert memory.find_memory(tmp_path) == 100 * MIB
