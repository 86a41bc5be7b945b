"""Downloads from the Hugging Face Hub, without a network: the function of huggingface_hub is replaced."""

import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.utils import filter_repo_objects

import regard
import texts
from commands import run
from regard import library
from regard.models.heads import NoHead

REPOSITORY = [
    "config.json", "model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "own.py",
    "README.md", "vocab.txt", "tokenizer.json", "source.spm", "onnx/config.json", "onnx/model.onnx", "own.bin",
]  # fmt: skip
DOWNLOADED = ["config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "source.spm"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch) -> list[dict[str, Any]]:
    """A Hub with one model, an/encoder; the calls that it gets."""
    model = texts.bert(NoHead(pooled=True)).float()
    library.save(tmp_path / "own", model.config, library.tensors(model), {"text": texts.TOKENIZER}, "")
    library.convert(str(tmp_path / "own"), f"hf:{tmp_path / 'encoder'}")
    calls = []

    def snapshot_download(name: str, **options: Any) -> str:
        calls.append({"name": name, **options})
        if name == "an/encoder":
            return str(tmp_path / "encoder")
        if name == "only/pickled":
            (tmp_path / "pickled").mkdir()
            return str(tmp_path / "pickled")
        raise huggingface_hub.errors.LocalEntryNotFoundError("Got: ConnectError\nPlease check your connection.")

    monkeypatch.delitem(sys.modules, "regard.interop.hub", raising=False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.chdir(tmp_path)
    return calls


def test_a_model_is_downloaded_on_request_and_converted(hub: list[dict[str, Any]]) -> None:
    assert run("convert", "--download", "hf:an/encoder", "mine").startswith("mine: converted from hf:an/encoder")
    own, mine = (regard.load(name, regard.Embedder) for name in ("own", "mine"))
    assert (own.embed(texts.TEXTS) == mine.embed(texts.TEXTS)).all()
    (call,) = hub
    kept = filter_repo_objects(
        REPOSITORY, allow_patterns=call["allow_patterns"], ignore_patterns=call["ignore_patterns"]
    )
    assert list(kept) == DOWNLOADED


def test_nothing_is_downloaded_silently(hub: list[dict[str, Any]]) -> None:
    command = "to download it, regard convert --download hf:an/encoder runs/encoder$"
    for call in (lambda: regard.load("hf:an/encoder"), lambda: run("embed", "-m", "hf:an/encoder", __file__)):
        with pytest.raises(ValueError, match=f"^hf:an/encoder: no such folder; {command}"):
            call()
    with pytest.raises(ValueError, match="^hf:not here/at/all: no such folder$"):
        regard.load("hf:not here/at/all")
    assert not hub


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hf:no/network", "new"], "^hf:no/network cannot be downloaded from the Hugging Face Hub: Got: ConnectError$"),
        (
            ["hf:only/pickled", "new"],
            "^hf:only/pickled has no safetensors weights on the Hugging Face Hub, and pickled",
        ),
        (["hf:a/b/c", "new"], "^'a/b/c' is no name of a model on the Hugging Face Hub"),
        (["hf:encoder", "new"], "^encoder is a folder here; leave --download out to convert it$"),
        (["own", "new"], "^own is not downloaded; write it as hf:NAME, such as hf:gpt2$"),
        (["hf:an/encoder", "own"], "^own already exists; choose another folder"),
    ],
)
def test_a_failed_download_is_reported_and_leaves_nothing(hub: list[dict[str, Any]], arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        run("convert", "--download", *arguments)
    assert not Path("new").exists()
    assert len(hub) <= 1


def test_without_huggingface_hub_the_extra_is_named(hub: list[dict[str, Any]], monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"huggingface_hub is .* not installed; run: pip install 'regard\[hub\]'"):
        run("convert", "--download", "hf:an/encoder", "new")
    assert not hub
