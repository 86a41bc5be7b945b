"""The bundled models."""

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.library import ASSETS

FACTS = {
    "en-es": (25e6, ("Tatoeba", "contributors", "CC BY 2.0 FR", "BLEU")),
    "en-pos": (4e6, ("UD_English-EWT", "contributors", "CC BY-SA 4.0", "95.25 %")),
    "shakespeare": (4e6, ("Shakespeare", "public domain", "bits per byte")),
}
"""By name: maximum size in bytes, and what the card must name."""


def test_every_bundled_model_is_known() -> None:
    assert {path.parent.name for path in ASSETS.glob("*/config.json")} == FACTS.keys()


@pytest.mark.parametrize("name", FACTS)
def test_a_bundled_model_is_small_and_its_card_names_the_training_data(name) -> None:
    folder, (size, texts) = ASSETS / name, FACTS[name]
    assert sum(path.stat().st_size for path in folder.iterdir()) < size
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {torch.float16}
    card = (folder / "README.md").read_text("utf-8")
    assert all(text in card for text in (*texts, "## Limits"))


def test_the_bundled_tagger_tags_a_sentence() -> None:
    tagger = regard.load("en-pos")
    assert tagger.tag("The brown dog ran") == ["DET", "ADJ", "NOUN", "VERB"]


def test_the_bundled_language_model_predicts_shakespeare_better_than_modern_prose() -> None:
    completer = regard.load("shakespeare")
    play = completer.measure("KING HENRY:\nWhat say you, my good lord?\n")
    prose = completer.measure("The committee approved the quarterly budget.\n")
    assert play.bits_per_byte < 2 < prose.bits_per_byte


def test_the_bundled_model_translates_with_and_without_capitals_and_full_stops() -> None:
    translator = regard.load("en-es")
    found = translator.translate(["We are eating bread.", "we are eating bread", "where is the station"])
    assert [translations[0].text for translations in found] == [
        "Estamos comiendo pan.",
        "Estamos comiendo pan.",
        "¿Dónde está la estación?",
    ]


def test_output_words_attend_to_the_words_they_translate() -> None:
    (found,) = regard.load("en-es").align(["The red house is big."], ["La casa roja es grande."])
    assert found.links() == ((0, 0), (2, 1), (1, 2), (3, 3), (4, 4))
