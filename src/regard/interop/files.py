"""The files of a folder of Hugging Face's, whatever model it holds."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.folders import read_tensors

WEIGHTS, INDEX, PICKLED = "model.safetensors", "model.safetensors.index.json", "pytorch_model*.bin"


def read_json(path: Path) -> dict[str, Any]:
    """The table of a JSON file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; is it a folder of Hugging Face's?") from None
    except ValueError:
        raise ValueError(f"{path}: damaged, it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a table of keys")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a table."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder, be they in one file or in several."""
    if (folder / WEIGHTS).is_file():
        return read_tensors(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        files = sorted(set(read_json(folder / INDEX).get("weight_map", {}).values()))
        if missing := [name for name in files if not (folder / name).is_file()]:
            raise ValueError(f"{folder}: {', '.join(missing)} named in {INDEX} is missing; download it again")
        return {name: tensor for file in files for name, tensor in read_tensors(folder / file).items()}
    if pickled := sorted(path.name for path in folder.glob(PICKLED)):
        raise ValueError(
            f"{folder}: has {pickled[0]}, but no {WEIGHTS}. Pickled weights are not opened; to convert them, where you "
            f"trust them, with the class that config.json names: ....from_pretrained(...).save_pretrained(...)"
        )
    raise ValueError(f"{folder}: has neither {WEIGHTS} nor {INDEX}")


def some(names: Iterable[str], most: int = 8) -> str:
    """Names for an error, not all of them if they are many."""
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return (", ".join(ordered[:most]) or "nothing") + more
