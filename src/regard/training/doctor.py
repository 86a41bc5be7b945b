"""`regard doctor`: hardware and software of this machine, and what to do about problems."""

import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch

from regard.folders import cache
from regard.training import machine
from regard.training.flops import best_time, limit

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DEVELOPER_EXTRAS = ("dev", "bench", "all")  # extras for developing Regard, and the one that includes all others
MIN_FREE_BYTES = 2e9  # of memory, and on the disk of the cache


@dataclass(frozen=True)
class Finding:
    """One property of the machine, as text and as numbers."""

    name: str
    text: str
    values: dict[str, Any]
    remedy: str | None = None
    """What to do about it; None: no problem."""


def findings() -> list[Finding]:
    """All findings: software, threads, memory, speed, optional packages, disk."""
    return [*_software(), *_machine(), *_extras(), *_environment()]


def _software() -> Iterator[Finding]:
    level = torch.backends.cpu.get_cpu_capability()
    slow = platform.machine() in ("x86_64", "AMD64") and not level.startswith("AVX")
    yield Finding("python", platform.python_version(), {"version": platform.python_version()})
    remedy = "the processor is old or emulated, so matrix products are slow" if slow else None
    yield Finding("torch", f"{torch.__version__}, {level}", {"version": torch.__version__, "level": level}, remedy)
    cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    cards += ["Apple (mps)"] if torch.backends.mps.is_available() else []
    yield Finding("graphics", ", ".join(cards) or "no GPU; computing on the CPU", {"cards": cards})


def _machine() -> Iterator[Finding]:
    own, chosen, cores, quota = torch.get_num_threads(), machine.threads(), machine.cores(), machine.quota()
    given = os.environ.get("OMP_NUM_THREADS")
    why = f"{len(machine.processors())} processors on {cores} cores, " + (f"quota {quota:g}" if quota else "no quota")
    why += f", OMP_NUM_THREADS={given}" if given else f", torch's default is {own}"
    numbers = {"chosen": chosen, "torch": own, "cores": cores, "quota": quota, "OMP_NUM_THREADS": given}
    remedy = (
        "OMP_NUM_THREADS leaves cores idle; unset it, or set threads in a recipe" if chosen < cores and given else None
    )
    yield Finding("threads", f"{chosen} ({why})", numbers, remedy)

    free, whole = machine.free_memory(), machine.memory()
    is_low = 0 < free < MIN_FREE_BYTES
    remedy = "training may run out of memory; close other programs, or set train.recompute=true" if is_low else None
    text = f"{free / 1e9:.1f} GB free of {whole / 1e9:.1f}" if whole else "unknown on this system"
    yield Finding("memory", text, {"free": free, "whole": whole}, remedy)

    speeds = {}
    for threads in sorted({1, chosen}):
        torch.set_num_threads(threads)
        speeds[threads] = limit(torch.device("cpu"), torch.float32)
    text = ", ".join(f"{speed / 1e9:.0f} GFLOP/s at {threads}" for threads, speed in speeds.items())
    scales_badly = chosen > 1 and speeds[chosen] < 0.7 * chosen * speeds[1]
    remedy = (
        "more threads bring little speedup; close other programs, or try OMP_WAIT_POLICY=passive"
        if scales_badly
        else None
    )
    yield Finding("products", f"{text} thread{'s' if chosen > 1 else ''}", {"flops": speeds}, remedy)

    source = torch.zeros(32 << 20)  # 128 MB, larger than any cache
    target = torch.empty_like(source)
    bandwidth = 2 * source.nbytes / best_time(lambda: target.copy_(source))
    yield Finding("bandwidth", f"{bandwidth / 1e9:.0f} GB/s of memory", {"bytes_per_second": bandwidth})


def _extras() -> Iterator[Finding]:
    """The optional packages, from the metadata of the package `regard`."""
    extras: dict[str, list[str]] = {}
    for line in metadata.requires("regard") or ():
        if found := re.match(r"""([\w.-]+).*extra == ['"](\w+)['"]""", line):
            extras.setdefault(found[2], []).append(found[1])
    for extra, packages in extras.items():
        if extra in DEVELOPER_EXTRAS:
            continue
        versions = {package: _version(package) for package in packages}
        text = ", ".join(f"{package} {version or 'missing'}" for package, version in versions.items())
        remedy = None if all(versions.values()) else f"to install: pip install 'regard[{extra}]'"
        yield Finding(extra, text, {"versions": versions}, remedy)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _environment() -> Iterator[Finding]:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    remedy = None if browser else "needed only for the tests of the explorer; to install: make browser"
    yield Finding("chromium", browser or "not found", {"path": browser}, remedy)
    folder = cache()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    remedy = "the disk is almost full; to remove the cache: regard cache --prune" if free < MIN_FREE_BYTES else None
    text = f"{folder}, {size / 1e9:.1f} GB, with {free / 1e9:.0f} GB free"
    yield Finding("cache", text, {"path": str(folder), "bytes": size, "free": free}, remedy)
