"""Errors about Hugging Face folders repeat nothing from their files that a reader could be made to run."""

import json
import shlex
from pathlib import Path

import pytest

from regard import library
from regard.errors import RegardError

PAYLOAD = "BertModel as Model'; touch PWNED; #"


def test_the_command_for_pickled_weights_names_the_class_with_their_head(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    for named, shown in (("BertForSequenceClassification", "BertForSequenceClassification"), ("Other", "AutoModelFor")):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": [named]}))
        with pytest.raises(RegardError, match=f"from transformers import {shown}"):
            library.load(f"hf:{tmp_path}")


@pytest.mark.parametrize("kind", ["bert", "gpt2", "roformer", "marian"])
@pytest.mark.parametrize("name", ["plain", "it's; touch PWNED #", 'two "words" $(touch PWNED)'])
def test_the_command_for_pickled_weights_has_nothing_of_the_config(tmp_path: Path, kind: str, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    entries = {"model_type": kind, "architectures": [PAYLOAD], "_name_or_path": PAYLOAD}
    (folder / "config.json").write_text(json.dumps(entries))
    (folder / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(RegardError, match="Pickled weights are not opened") as error:
        library.load(f"hf:{folder}")
    message = str(error.value)
    assert PAYLOAD not in message
    if "python -c" in message:  # a shell reads the command as four words, of which only the last names the folder
        command = shlex.split(message[message.index("python -c") :])
        assert command[:2] == ["python", "-c"]
        assert command[3:] == [str(folder)]
        compile(command[2], "command", "exec")
