"""BERT in the explorer, with each head."""

import json

import pytest
import torch

from helpers import assert_same
from regard.models.heads import ClassificationHead, NoHead, PretrainingHead, RegressionHead, TaggingHead
from regard.serve.explorer import Explorer, Numbers
from texts import encoder

HEADS = {
    "none": NoHead(),
    "words": PretrainingHead(),
    "classification": ClassificationHead(labels=("bad", "good")),
    "regression": RegressionHead(),
    "tagging": TaggingHead(labels=("N", "V", "X")),
}
TEXT = "the brown dog ran"
REQUEST = {"inputs": {"text": TEXT}}


@pytest.fixture(scope="module", params=HEADS)
def explorer(request) -> Explorer:
    return Explorer(encoder(HEADS[request.param]), request.param, TEXT)


def test_every_request_is_answered(explorer: Explorer) -> None:
    model = explorer.answer("model", {})
    read = explorer.answer("read", REQUEST)
    pieces = read["streams"]["text"]["pieces"]
    assert pieces[0] == "[CLS]"
    for look in model["looks"]:
        answer = explorer.answer("attention", {**REQUEST, "path": look["path"]})
        assert isinstance(answer, Numbers)
        assert answer.values.shape == (2, len(pieces), len(pieces))
        assert_same(answer.values.sum(-1), torch.ones(2, len(pieces), dtype=torch.float64))
    for part in model["parts"]:
        for token in range(len(pieces)):
            steps = explorer.answer("walk", {**REQUEST, "path": part["path"], "token": token})["steps"]
            assert steps, part
    for verb in ("heads", "what-if"):
        json.dumps(explorer.answer(verb, REQUEST), allow_nan=False)
    silenced = {"heads": {"layers.0.attention": [0, 1]}}
    answer = explorer.answer("what-if", {**REQUEST, "change": silenced})
    original, changed = answer["original"], answer["changed"]
    if explorer.name == "none":  # there is no prediction
        assert [*original["pieces"], *original["probabilities"]] == []
        assert [*changed["pieces"], *changed["probabilities"]] == []
    elif explorer.name == "regression":  # the prediction is one number, without a probability
        assert changed["pieces"] != original["pieces"]
    else:
        assert changed["probabilities"] != original["probabilities"]


def test_predictions_for_masks_are_shown() -> None:
    explorer = Explorer(encoder(PretrainingHead()), "words")
    read = explorer.answer("read", {"inputs": {"text": "the [MASK] dog [SEP] good food"}})
    place = read["streams"]["text"]["pieces"].index("[MASK]")
    target = read["spoken"]
    assert target["pieces"][place] == target["others"][place][0][0]
    assert target["probabilities"][place] == target["others"][place][0][1]
    assert target["pieces"][place + 1] == "dog"
