"""The card of a model names files and their hashes, and no folders."""

import hashlib
import json
from pathlib import Path

from regard.data.corpus import file_hash
from regard.training.card import card
from runs import custom_recipe


def test_a_card_names_files_and_their_hashes_but_no_folders(tmp_path: Path) -> None:
    recipe = custom_recipe(tmp_path, 50, f"data.valid={tmp_path}/secret/valid.tsv")
    text = card("run", ["BLEU 12"], recipe)
    assert text.startswith("# run\n\nBLEU 12\n\nThe recipe:\n")
    assert str(tmp_path) not in text
    assert "secret" not in text
    found = json.loads(text.partition("```json\n")[2].partition("\n```")[0])
    (train,), (valid,) = found["data"]["train"], found["data"]["valid"]
    assert train["path"] == f"mine.tsv (hash: {file_hash(tmp_path / 'mine.tsv')[:16]})"
    assert valid["path"] == "valid.tsv"
    assert found["run"] == "run"
    assert found["model"] == json.loads(recipe.to_json())["model"]


def test_the_hash_of_a_card_is_that_of_the_content(tmp_path: Path) -> None:
    text = card("run", [], custom_recipe(tmp_path, 50))
    digest = hashlib.sha256(hashlib.sha256((tmp_path / "mine.tsv").read_bytes()).digest()).hexdigest()
    assert digest[:16] in text
