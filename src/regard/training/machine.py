"""What this machine has, and what of it a process may use."""

import os
from pathlib import Path

import torch

PROCESSORS = Path("/sys/devices/system/cpu")
OWN_GROUPS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def threads() -> int:
    """The threads to compute with: as many as torch chooses, but no more than there are cores to run them.

    Torch counts what one core runs at once as two, and knows nothing of quotas; threads beyond the cores wait for each
    other.
    """
    return max(1, min(torch.get_num_threads(), cores(), int(quota() or cores())))


def processors() -> set[int]:
    """The numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores() -> int:
    """The cores behind these processors, of which some may run two threads at once."""
    paths = (PROCESSORS / f"cpu{number}" / "topology" / "thread_siblings_list" for number in processors())
    return len({path.read_text() if path.exists() else path for path in paths})


def quota() -> float | None:
    """The processors' worth of time that a container allows; None: all."""
    found = [text.split() for text in _settings("cpu", "cpu.max")]
    times, periods = _settings("cpu", "cpu.cfs_quota_us"), _settings("cpu", "cpu.cfs_period_us")
    found += [[*pair] for pair in zip(times, periods, strict=True)]
    return min((int(time) / int(period) for time, period in found if time not in ("max", "-1")), default=None)


def memory() -> int:
    """The bytes of memory of the machine, or what a container allows of them; 0: not known, as on Windows."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return 0
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = [*_settings("memory", "memory.max"), *_settings("memory", "memory.limit_in_bytes")]
    return min([whole, *(int(limit) for limit in found if limit != "max")])


def free_memory() -> int:
    """The bytes of memory that are free or can be freed at once; 0: not known."""
    path = Path("/proc/meminfo")
    lines = path.read_text().splitlines() if path.exists() else []
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min([memory(), *(1024 * count for count in kilobytes)])


def _settings(controller: str, name: str) -> list[str]:
    """What a file says in the group of this process and in those around it, in either version of Linux's cgroups."""
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
