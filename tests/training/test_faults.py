"""A run that fails at a file operation gives the same weights when rerun; `benchmarks/faults.py` tries all of them."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

import faults
from regard.training.loop import Training

TRIED = 4  # of each mode, spread over all operations


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int, list[bytes]]]:
    folder = tmp_path_factory.mktemp("faults")
    root = folder / "undisturbed"
    root.mkdir()
    none = faults.Faults(root)
    with patch.object(Training, "_draw_curves"):  # slow
        faults.run(root, none)
        assert none.count > 100
        yield folder, none.count, faults.weights(root / "run")


@pytest.mark.parametrize("mode", faults.MODES)
def test_a_run_that_fails_at_a_file_operation_gives_the_same_weights_when_rerun(counted, mode) -> None:
    folder, count, expected = counted
    first = faults.MODES.index(mode)
    for number in range(TRIED):
        # the modes take turns, so that together they try four times as many operations
        at = (number * len(faults.MODES) + first) * count // (TRIED * len(faults.MODES))
        root = folder / f"{mode}-{at}"
        root.mkdir()
        assert faults.trial(root, mode, at, expected) == ""


def test_a_fault_ends_the_run(counted) -> None:
    folder, count, _ = counted
    (folder / "dead").mkdir()
    dying = faults.Faults(folder / "dead", "dies", count // 2)
    with pytest.raises(faults.Death):
        faults.run(folder / "dead", dying)
    assert dying.count == count // 2 + 1
