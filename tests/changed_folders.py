"""Folders of Hugging Face's that are changed, to see what is then said of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor


def change_json(path: Path, **changes: Any) -> None:
    """Writes other values into a file; None takes a key away."""
    values = {**json.loads(path.read_text("utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}), "utf-8")


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    path = folder / "model.safetensors"
    # copies, because the file that they are read from is written over
    save_file(change({name: tensor.clone() for name, tensor in load_file(path).items()}), path, {"format": "pt"})


def assert_same_tensors(got: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)
