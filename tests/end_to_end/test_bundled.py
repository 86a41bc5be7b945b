"""The bundled model."""

import torch
from safetensors.torch import load_file

import regard
from regard.library import ASSETS

FOLDER = ASSETS / "en-es"


def test_the_bundled_model_is_small_and_its_card_names_the_training_data() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 25e6
    assert {tensor.dtype for tensor in load_file(FOLDER / "model.safetensors").values()} == {torch.float16}
    card = (FOLDER / "README.md").read_text("utf-8")
    assert all(text in card for text in ("Tatoeba", "contributors", "CC BY 2.0 FR", "BLEU", "## Limits"))


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
