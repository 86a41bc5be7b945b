"""The files of a folder of Hugging Face's, whatever model it holds."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import RegardError
from regard.folders import read_tensors

WEIGHTS, INDEX, PICKLED = "model.safetensors", "model.safetensors.index.json", "pytorch_model*.bin"
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
"""What models are called on the Hugging Face Hub, such as `gpt2` or `Helsinki-NLP/opus-mt-en-de`."""
USED = 0.5  # share of a table's rows that a tokenizer has tokens for, at least; some tables are rounded up
# our activations under their names; where one has several, the last is the one that all versions know
ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}


def read_json(path: Path) -> dict[str, Any]:
    """The table of a JSON file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RegardError(f"{path}: no such file; is it a folder of Hugging Face's?") from None
    except ValueError:
        raise RegardError(f"{path}: damaged, it is not JSON") from None
    if not isinstance(value, dict):
        raise RegardError(f"{path}: expected a table of keys")
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
            raise RegardError(f"{folder}: {', '.join(missing)} named in {INDEX} is missing; download it again")
        return {name: tensor for file in files for name, tensor in read_tensors(folder / file).items()}
    if pickled := sorted(path.name for path in folder.glob(PICKLED)):
        # nothing of what a stranger's files say goes into this command, which is there to be copied
        place = shlex.quote(str(folder))
        raise RegardError(
            f"{folder}: has {pickled[0]}, but no {WEIGHTS}. Pickled weights are not opened, because they can run any "
            f"code; to convert them, where you trust them: python -c 'import sys; from transformers import "
            f"AutoModelForPreTraining as M; M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])' {place}"
        )
    raise RegardError(f"{folder}: has neither {WEIGHTS} nor {INDEX}")


def expect_only(theirs: Mapping[str, Any], only: Mapping[str, Any]) -> None:
    """Raises `RegardError` where a config asks for what no model of ours does."""
    for key, value in only.items():
        if (asked := theirs.get(key, value)) != value:
            raise RegardError(f"{key} = {asked!r}; only {value!r} can be converted")


def expect_tensors(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor], kind: str) -> None:
    """Raises `RegardError` unless the tensors are those that a config asks for, and of their shapes."""
    missing, unknown = wanted.keys() - given.keys(), given.keys() - wanted.keys()
    if missing or unknown:
        raise RegardError(f"not a {kind} of this config: missing {some(missing)}, not known {some(unknown)}")
    for name, like in wanted.items():
        tensor, shape = given[name], tuple(like.shape)
        if tuple(tensor.shape) != shape or not tensor.is_floating_point():
            raise RegardError(
                f"{name} has {tensor.dtype} of shape {tuple(tensor.shape)}, config.json asks for floats of {shape}"
            )


def expect_room(folder: Path, tokens: int, rows: int) -> None:
    """Raises `RegardError` if a tokenizer has more tokens than the model's table has rows, or far fewer."""
    if not USED * rows <= tokens <= rows:
        raise RegardError(
            f"{folder}: its tokenizer has {tokens} tokens, its model's table {rows} rows; are they of two models?"
        )


def some(names: Iterable[str], most: int = 40) -> str:
    """Names for an error, not all of them if they are many."""
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return (", ".join(ordered[:most]) or "nothing") + more
