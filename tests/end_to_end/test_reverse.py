"""The demo: a model trained from scratch, with blocks, masks, decoding and capture."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "reverse.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reverse", EXAMPLE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(example: ModuleType) -> torch.nn.Module:
    return example.train(steps=700, seed=1)


def test_the_model_learns_to_reverse_words(example, model) -> None:
    assert example.accuracy(model, seed=1) > 0.98
    assert example.write(model, "bread")[0] == "daerb"


def test_attention_is_highest_at_the_predicted_letter(example, model) -> None:
    word = "regarding"
    answer, weights = example.write(model, word)
    assert answer == word[::-1]
    assert weights.shape == (9, 9)
    assert weights.argmax(1).tolist() == list(range(8, -1, -1))


def test_without_positions_the_model_fails(example, model) -> None:
    with example.intervene(model, drop_positions="*"):
        assert example.accuracy(model, seed=1) < 0.5
    assert example.accuracy(model, seed=1) > 0.98


def test_the_command_writes_a_figure_and_refuses_invalid_words(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), "--steps", "5", "--figure", str(tmp_path / "new" / "reverse.png")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "accuracy on the letters of 200 unseen words" in result.stdout
    assert (tmp_path / "new" / "reverse.png").read_bytes().startswith(b"\x89PNG")
    result = subprocess.run([*command, "--word", "naïve"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "--word naïve: give 3 to 12 letters from a to z" in result.stderr
