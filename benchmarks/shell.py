"""A translation from the shell, start and end included, beside what it takes Python to import torch.

    python benchmarks/shell.py

The two take turns, 15 times.
"""

import subprocess
import sys
from functools import partial

from harness import interleave, machine, report

COMMANDS = {
    "regard translate": [sys.executable, "-m", "regard", "translate", "we are eating bread"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    """Measures and prints a table."""
    print(machine())
    contenders = {
        name: partial(subprocess.run, command, check=True, capture_output=True) for name, command in COMMANDS.items()
    }
    print(report(interleave(contenders), 1, "calls"))


if __name__ == "__main__":
    main()
