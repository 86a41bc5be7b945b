import os
from pathlib import Path

import pytest
import torch

from regard.training import machine


@pytest.fixture
def groups(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(machine, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@pytest.mark.usefixtures("groups")
def test_without_a_quota_there_is_a_thread_for_each_core() -> None:
    assert machine.quota() is None
    assert machine.threads() == 8


@pytest.mark.parametrize(("time", "threads"), [("250000", 2), ("50000", 1), ("max", 8)])
def test_a_quota_of_the_new_cgroups_limits_threads(groups: Path, time, threads) -> None:
    write(groups / "own", "0::/box/job")
    write(groups / "groups/box/cpu.max", f"{time} 100000")
    write(groups / "groups/box/job/cpu.max", "max 100000")
    assert machine.threads() == threads


@pytest.mark.parametrize(("time", "threads"), [("300000", 3), ("-1", 8)])
def test_a_quota_of_the_old_cgroups_limits_threads(groups: Path, time, threads) -> None:
    write(groups / "own", "4:memory:/\n3:cpu,cpuacct:/job")
    write(groups / "groups/cpu,cpuacct/job/cpu.cfs_quota_us", time)
    write(groups / "groups/cpu,cpuacct/job/cpu.cfs_period_us", "100000")
    assert machine.threads() == threads


@pytest.mark.usefixtures("groups")
def test_a_lower_number_of_threads_is_respected(monkeypatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert machine.threads() == 1


def test_memory_is_limited_by_the_container(groups: Path) -> None:
    whole = machine.memory()
    write(groups / "own", "0::/")
    write(groups / "groups/memory.max", "1000000")
    assert (machine.memory(), machine.free_memory()) == (1_000_000, 1_000_000)
    write(groups / "groups/memory.max", "max")
    assert machine.memory() == whole
    assert 0 < machine.free_memory() <= whole


def test_without_sysconf_and_affinity_memory_is_unknown_and_all_processors_count(monkeypatch) -> None:
    for name in ("sysconf", "sysconf_names", "sched_getaffinity"):  # as on Windows
        monkeypatch.delattr(os, name)
    assert (machine.memory(), machine.free_memory()) == (0, 0)
    assert machine.processors() == set(range(os.cpu_count() or 1))
    assert machine.threads() >= 1
