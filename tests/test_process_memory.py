import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys, torch
from regard.process_memory import keep_memory
torch.set_num_threads(1)
if sys.argv[1] == "keep":
    keep_memory()
for _ in range(20):  # until the heap has its final size
    torch.ones(12_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(12_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can keep freed memory")
def test_kept_memory_causes_no_page_faults() -> None:
    faults = {
        how: int(subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True).stdout)
        for how in ("keep", "return")
    }
    assert faults["keep"] < faults["return"] / 10


FREED = """
import re, torch
from pathlib import Path
from regard.process_memory import release_memory

def resident():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

blocks = [torch.ones(20_000) for _ in range(2000)]
del blocks[:-1]  # the last block keeps the free ones below it from being returned
before = resident()
release_memory()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can return freed memory on request")
def test_freed_memory_is_returned_to_the_system() -> None:
    found = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 50_000  # kilobytes, of 160,000 freed
