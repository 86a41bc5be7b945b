"""Model folders hold the codecs of a model by role, and describe their contents."""

import json
from pathlib import Path

import torch

from regard.codecs.subword import SubwordTokenizer
from regard.models.transformer import TransformerConfig
from regard.store import models

CONFIG = TransformerConfig(vocab_size=9, width=4, heads=1, ff_width=4, encoder_layers=1, decoder_layers=1)
ONE, OTHER = (SubwordTokenizer.train("bpe", size, ["we are"]) for size in (262, 261))


def saved(folder: Path, **codecs) -> models.Saved:
    weights = {"x": torch.arange(3.0)}
    models.save(folder, task="juggling", config=CONFIG, weights=weights, codecs=codecs, card="# Card\n")
    found = models.read(folder)
    assert found.task == "juggling"
    assert found.model == json.loads(CONFIG.to_json())
    assert torch.equal(found.weights["x"], weights["x"])
    return found


def test_a_model_can_be_saved_without_codecs(tmp_path: Path) -> None:
    assert saved(tmp_path / "m").codecs == {}
    assert {path.name for path in (tmp_path / "m").iterdir()} == {
        "config.json", "README.md", "model.safetensors", "hashes.json",
    }  # fmt: skip


def test_roles_with_the_same_codec_share_one_file(tmp_path: Path) -> None:
    found = saved(tmp_path / "m", source=ONE, target=ONE).codecs
    assert found["source"] == found["target"] == ("subword", tmp_path / "m" / "tokenizer.json")


def test_roles_with_different_codecs_have_separate_files(tmp_path: Path) -> None:
    found = saved(tmp_path / "m", source=ONE, target=OTHER).codecs
    assert [file.path.name for file in found.values()] == ["tokenizer.source.json", "tokenizer.target.json"]
    assert [SubwordTokenizer.load(file.path).vocab_size for file in found.values()] == [
        ONE.vocab_size,
        OTHER.vocab_size,
    ]
