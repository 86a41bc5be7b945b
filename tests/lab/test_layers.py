import json
from pathlib import Path

import torch
from typer.testing import CliRunner

from helpers import assert_same
from regard import library
from regard.cli.main import app
from regard.data.conllu import Sentence
from regard.lab import layers
from regard.models.heads import NoHead
from regard.tasks.encoding import Encoder
from texts import TEXTS, TOKENIZER, bert

ENCODER = Encoder(bert(NoHead(), width=32, layers=3), TOKENIZER)
SENTENCES = [Sentence(tuple(text.split()), tuple("SL"[len(word) > 3] for word in text.split())) for text in TEXTS]


def test_the_choices_are_those_of_the_lectures() -> None:
    assert layers.choices(12) == {
        "what goes into the first": ([0], "sum"),
        "last": ([12], "sum"),
        "sum of all": (list(range(1, 13)), "sum"),
        "second to last": ([11], "sum"),
        "sum of the last four": ([9, 10, 11, 12], "sum"),
        "last four side by side": ([9, 10, 11, 12], "concatenate"),
    }
    assert layers.choices(2)["sum of the last four"] == ([1, 2], "sum")


def test_a_word_has_the_vectors_of_its_first_piece() -> None:
    states_LND, tags_N = layers._words(ENCODER, SENTENCES[:1], {"L": 0, "S": 1})
    words = SENTENCES[0].words
    ((tokens, numbers),) = TOKENIZER.encode_words([words])
    tokens_BT = torch.tensor([[TOKENIZER.begin, *tokens, TOKENIZER.end]])
    expected = ENCODER.model.states(tokens_BT, torch.zeros_like(tokens_BT))
    firsts = [1 + numbers.index(i) for i in range(len(words))]
    for got_ND, state_BTD in zip(states_LND, expected, strict=True):
        assert_same(got_ND, state_BTD[0, firsts].float(), tolerance=1e-6)
    assert tags_N.tolist() == ["LS".index(tag) for tag in SENTENCES[0].tags]


def test_tags_that_a_word_alone_tells_are_read_off_any_layer() -> None:
    found = layers.study(ENCODER, SENTENCES * 100, SENTENCES)
    assert found == layers.study(ENCODER, SENTENCES * 100, SENTENCES)
    assert min(found.values()) > 60
    assert found["last four side by side"] > 90
    # what was never seen counts as wrong
    odd = [Sentence(SENTENCES[0].words, ("?",) * len(SENTENCES[0].words))]
    assert layers.study(ENCODER, SENTENCES, odd)["last"] == 0


def test_the_command_prints_a_table_and_draws_it(tmp_path: Path) -> None:
    library.save(tmp_path / "m", ENCODER.model.config, library.tensors(ENCODER.model), {"text": TOKENIZER}, "")
    rows = [
        "\n".join(f"{i}\t{w}\t_\t{t}" + "\t_" * 6 for i, (w, t) in enumerate(zip(*s, strict=True), start=1))
        for s in SENTENCES
    ]
    (tmp_path / "a.conllu").write_text("\n\n".join(rows) + "\n\n")
    files = ["--train", str(tmp_path / "a.conllu"), "--valid", str(tmp_path / "a.conllu")]
    asked = ["lab", "layers", "--model", str(tmp_path / "m"), *files]
    result = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "layers.png")])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 6
    assert (tmp_path / "layers.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert [f"{value:.2f}" for value in found.values()] == [line.split()[-1] for line in result.stdout.splitlines()]
    assert found["last"] > 0
