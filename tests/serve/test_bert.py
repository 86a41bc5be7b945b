"""BERT in the explorer, with each of its heads."""

import json

import pytest
import torch

from helpers import assert_same
from regard.models.heads import ClassificationHead, NoHead, PretrainingHead, RegressionHead, TaggingHead
from regard.serve.explorer import Explorer, Numbers
from texts import opened

HEADS = {
    "none": NoHead(),
    "words": PretrainingHead(),
    "classification": ClassificationHead(labels=("bad", "good")),
    "regression": RegressionHead(),
    "tagging": TaggingHead(labels=("N", "V", "X")),
}
TEXT = "the brown dog ran"
ASKED = {"inputs": {"text": TEXT}}


@pytest.fixture(scope="module", params=HEADS)
def explorer(request) -> Explorer:
    return Explorer(opened(HEADS[request.param]), request.param, TEXT)


def test_every_question_has_an_answer(explorer: Explorer) -> None:
    model = explorer.answer("model", {})
    read = explorer.answer("read", ASKED)
    pieces = read["streams"]["text"]["pieces"]
    assert pieces[0] == "[CLS]"
    for look in model["looks"]:
        answer = explorer.answer("attention", {**ASKED, "path": look["path"]})
        assert isinstance(answer, Numbers)
        assert answer.values.shape == (2, len(pieces), len(pieces))
        assert_same(answer.values.sum(-1), torch.ones(2, len(pieces), dtype=torch.float64))
    for part in model["parts"]:
        for token in range(len(pieces)):
            steps = explorer.answer("walk", {**ASKED, "path": part["path"], "token": token})["steps"]
            assert steps, part
    for verb in ("heads", "what-if"):
        json.dumps(explorer.answer(verb, ASKED), allow_nan=False)
    silenced = {"heads": {"layers.0.attention": [0, 1]}}
    answer = explorer.answer("what-if", {**ASKED, "change": silenced})
    original, changed = answer["original"], answer["changed"]
    if explorer.name == "none":  # it says nothing, whatever is changed
        assert [*original["pieces"], *original["probabilities"]] == []
        assert [*changed["pieces"], *changed["probabilities"]] == []
    elif explorer.name == "regression":  # it says one number, of which it is always sure
        assert changed["pieces"] != original["pieces"]
    else:
        assert changed["probabilities"] != original["probabilities"]


def test_guesses_behind_masks_are_shown() -> None:
    explorer = Explorer(opened(PretrainingHead()), "words")
    read = explorer.answer("read", {"inputs": {"text": "the [MASK] dog [SEP] good food"}})
    place = read["streams"]["text"]["pieces"].index("[MASK]")
    target = read["spoken"]
    assert target["pieces"][place] == target["others"][place][0][0]
    assert target["probabilities"][place] == target["others"][place][0][1]
    assert target["pieces"][place + 1] == "dog"
