"""Accuracy and training time of the recipe `translate/dates`: exact matches on 1,000 dates of unseen years.

python benchmarks/dates.py
"""

import shutil
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import regard
from harness import machine
from regard.data.dates import dates

RUN = Path("runs/dates-measured")


def main() -> None:
    """Train, translate and count exact matches."""
    shutil.rmtree(RUN, ignore_errors=True)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "regard", "train", "translate/dates", f"run={RUN}"], check=True)
    seconds = time.perf_counter() - start
    # a different seed from that of the run's validation dates
    tests = list(islice(dates("en", "es", seed=3, unseen=True), 1000))
    found = regard.load(str(RUN), regard.Translator).translate([source for source, _ in tests])
    exact = sum(best[0].text == target for best, (_, target) in zip(found, tests, strict=True))
    print(f"{machine()}: {exact} of {len(tests)} exact matches after {seconds:.0f} s, including start-up")


if __name__ == "__main__":
    main()
