"""Changes to Hugging Face model folders, for tests of errors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor


def change_json(path: Path, **changes: Any) -> None:
    """Changes keys of a JSON file; None removes a key."""
    values = {**json.loads(path.read_text("utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}), "utf-8")


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    path = folder / "model.safetensors"
    # copies, because the tensors are mapped from the file that is overwritten
    save_file(change({name: tensor.clone() for name, tensor in load_file(path).items()}), path, {"format": "pt"})


def assert_same_tensors(got: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)
