import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from helpers import assert_same
from regard import library
from regard.cli.main import app
from regard.data.conllu import Sentence
from regard.lab import layers
from regard.lab.layers import Layers
from regard.models.heads import NoHead
from regard.tasks.embedding import Embedder
from texts import TEXTS, TOKENIZER, bert

ENCODER = Embedder(bert(NoHead(), width=32, layers=3), TOKENIZER)
SENTENCES = [Sentence(tuple(text.split()), tuple("SL"[len(word) > 3] for word in text.split())) for text in TEXTS]


def test_the_choices_of_layers_are_those_of_the_lectures() -> None:
    assert layers.choices(12) == {
        "what goes into the first": ([0], "sum"),
        "last": ([12], "sum"),
        "sum of all": (list(range(1, 13)), "sum"),
        "second to last": ([11], "sum"),
        "sum of the last four": ([9, 10, 11, 12], "sum"),
        "last four side by side": ([9, 10, 11, 12], "concatenate"),
    }
    assert layers.choices(2)["sum of the last four"] == ([1, 2], "sum")


def test_the_vector_of_a_word_is_that_of_its_first_piece() -> None:
    states_LND, tags_N = layers._words(ENCODER, SENTENCES[:1], {"L": 0, "S": 1})
    words = SENTENCES[0].words
    ((tokens, numbers),) = TOKENIZER.encode_words([words])
    tokens_BT = torch.tensor([[TOKENIZER.begin, *tokens, TOKENIZER.end]])
    expected = ENCODER.model.states(tokens_BT, torch.zeros_like(tokens_BT))
    firsts = [1 + numbers.index(i) for i in range(len(words))]
    for got_ND, state_BTD in zip(states_LND, expected, strict=True):
        assert_same(got_ND, state_BTD[0, firsts].float(), tolerance=1e-6)
    assert tags_N.tolist() == ["LS".index(tag) for tag in SENTENCES[0].tags]


def test_tags_that_depend_on_the_word_only_are_predicted_from_any_layer() -> None:
    found = Layers.run(ENCODER, SENTENCES * 100, SENTENCES).values
    assert found == Layers.run(ENCODER, SENTENCES * 100, SENTENCES).values
    assert min(found.values()) > 60
    assert found["last four side by side"] > 90
    # a tag that does not occur in training counts as wrong
    odd = [Sentence(SENTENCES[0].words, ("?",) * len(SENTENCES[0].words))]
    assert Layers.run(ENCODER, SENTENCES, odd).values["last"] == 0


def test_the_command_prints_a_table_and_writes_a_figure(tmp_path: Path) -> None:
    library.save(tmp_path / "m", ENCODER.model.config, library.tensors(ENCODER.model), {"text": TOKENIZER}, "")
    rows = [
        "\n".join(f"{i}\t{w}\t_\t{t}" + "\t_" * 6 for i, (w, t) in enumerate(zip(*s, strict=True), start=1))
        for s in SENTENCES
    ]
    (tmp_path / "a.conllu").write_text("\n\n".join(rows) + "\n\n")
    files = ["--train", str(tmp_path / "a.conllu"), "--valid", str(tmp_path / "a.conllu")]
    command = ["lab", "layers", "--model", str(tmp_path / "m"), *files]
    result = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "layers.png")])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 6
    assert (tmp_path / "layers.png").read_bytes().startswith(b"\x89PNG")
    messages = result.stderr.splitlines()
    assert messages[0] == f"claim: {Layers.claim}"
    assert messages[1] == f"prediction: {Layers.prediction}"
    assert messages[2].startswith(
        "verdict: undecided: the model has only 3 layers, so the last four are all; the best choice is '"
    )
    quiet = CliRunner().invoke(app, [*command, "--json"])
    found = json.loads(quiet.stdout)
    assert quiet.stderr == ""
    shown = [line.split()[-1] for line in result.stdout.splitlines()]
    assert [f"{found[name]:.2f}" for name in layers.choices(3)] == shown
    assert found["last"] > 0
    assert found["claim"]["source"] == "Devlin et al. 2018, section 5.3"
    assert found["prediction"] == Layers.prediction
    assert found["verdict"]["holds"] is None
    assert found["verdict"]["interval"]["mean"] == pytest.approx(
        found["last four side by side"] - found["last"], abs=1e-4
    )


def correct_predictions(**right: int) -> dict[str, Tensor]:
    """For each choice, which of 1,000 words it tags correctly: the given number, always the first ones."""
    counts = {name: right.get(name.replace(" ", "_"), 500) for name in layers.choices(12)}
    return {name: torch.arange(1000) < count for name, count in counts.items()}


@pytest.mark.parametrize(
    ("depth", "right", "holds"),
    [
        (12, {"last_four_side_by_side": 700}, True),
        (12, {"last_four_side_by_side": 700, "second_to_last": 720}, True),
        (12, {"last_four_side_by_side": 501}, None),  # one more word is no significant difference
        (12, {"last": 600}, False),
        (12, {"last_four_side_by_side": 700, "sum_of_all": 800}, False),
        (12, {"last_four_side_by_side": 700, "what_goes_into_the_first": 800}, False),
        (4, {"last_four_side_by_side": 700}, None),  # the model has only four layers
    ],
)
def test_the_verdict_follows_from_the_numbers(depth, right, holds) -> None:
    found = Layers(depth, correct_predictions(**right))
    assert found.verdict.holds is holds
    interval = found.verdict.interval
    # accuracies are means in float32
    assert interval.mean == pytest.approx(found.values["last four side by side"] - found.values["last"], abs=1e-4)
    assert interval.low <= interval.mean <= interval.high
    best = max(found.values, key=found.values.get)
    assert f"the best choice is '{best}' with {found.values[best]:.2f} %" in str(found.verdict)
