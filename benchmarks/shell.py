"""A translation from the shell, including start-up, compared with the time Python takes to import torch.

    python benchmarks/shell.py

The two take turns, 15 times.
"""

import statistics
import subprocess
import sys
from functools import partial

from harness import interleave, machine, ratio

COMMANDS = {
    "regard translate": [sys.executable, "-m", "regard", "translate", "we are eating bread"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    """Measure and print both."""
    print(machine())
    contenders = {
        name: partial(subprocess.run, command, check=True, capture_output=True) for name, command in COMMANDS.items()
    }
    seconds = interleave(contenders)
    for name, times in seconds.items():
        print(f"{name}: {statistics.median(times):.2f} s")
    print("{:.2f} times as long ({:.2f} to {:.2f})".format(*ratio(*reversed(seconds.values()))))


if __name__ == "__main__":
    main()
