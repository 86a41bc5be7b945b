"""Cores and memory of this machine, and how much of them this process may use."""

import os
from pathlib import Path

import torch

PROCESSORS = Path("/sys/devices/system/cpu")
OWN_GROUPS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def threads() -> int:
    """The number of threads to compute with: torch's default, but at most the number of available cores.

    Torch counts hyper-threads as cores and ignores the CPU quotas of containers; surplus threads wait for each other.
    """
    return max(1, min(torch.get_num_threads(), cores(), int(quota() or cores())))


def processors() -> set[int]:
    """The indices of the logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores() -> int:
    """The number of physical cores behind these processors; hyper-threads of a core count once."""
    paths = (PROCESSORS / f"cpu{number}" / "topology" / "thread_siblings_list" for number in processors())
    return len({path.read_text() if path.exists() else path for path in paths})


def quota() -> float | None:
    """The CPU quota of the container, in processors; None: no quota."""
    found = [text.split() for text in _settings("cpu", "cpu.max")]
    times, periods = _settings("cpu", "cpu.cfs_quota_us"), _settings("cpu", "cpu.cfs_period_us")
    found += [[*pair] for pair in zip(times, periods, strict=True)]
    return min((int(time) / int(period) for time, period in found if time not in ("max", "-1")), default=None)


def memory() -> int:
    """The memory of the machine, or the limit of the container, in bytes; 0: unknown, as on Windows."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return 0
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = [*_settings("memory", "memory.max"), *_settings("memory", "memory.limit_in_bytes")]
    return min([whole, *(int(limit) for limit in found if limit != "max")])


def free_memory() -> int:
    """The available memory in bytes; 0: unknown."""
    path = Path("/proc/meminfo")
    lines = path.read_text().splitlines() if path.exists() else []
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min([memory(), *(1024 * count for count in kilobytes)])


def _settings(controller: str, name: str) -> list[str]:
    """A setting in the cgroup of this process and in all its parents; cgroups v1 and v2."""
    texts = []
    for line in OWN_GROUPS.read_text().splitlines() if OWN_GROUPS.exists() else []:
        _, controllers, group = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = GROUPS / controllers
            inner = top / group.lstrip("/")
            around = [inner, *inner.parents]
            files = [folder / name for folder in around[: around.index(top) + 1]]
            texts += [file.read_text().strip() for file in files if file.is_file()]
    return texts
