"""BERT in the explorer, with each head."""

import json

import pytest
import torch

from completers import completer
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


def test_the_walk_ends_with_the_most_probable_words_and_the_target() -> None:
    explorer = Explorer(encoder(PretrainingHead()), "words")
    asked = {"inputs": {"text": "the [MASK] dog"}, "target": "the sad dog"}
    last = explorer.answer("read", asked)["output_part"]
    assert (last["path"], last["stream"]) == ("output", "text")
    answer = explorer.answer("walk", {**asked, "path": "output", "token": 2})
    trace = explorer.subject.trace("the [MASK] dog", "the sad dog")
    logits_V = trace.run()[0, 2]
    best = [*logits_V.topk(10).indices.tolist(), trace.target.tokens[2]]
    assert answer["outputs"] == trace.pieces(best)  # the target is not among the best
    logits, softmax = answer["steps"][-2:]
    assert logits["values"] == pytest.approx(logits_V[best].tolist(), rel=1e-5)
    assert softmax["values"] == pytest.approx(logits_V.softmax(0)[best].tolist(), rel=1e-5)


def test_heads_and_what_if_count_masked_words_only_or_a_chosen_token() -> None:
    explorer = Explorer(encoder(PretrainingHead()), "words")
    asked = {"inputs": {"text": "the [MASK] dog"}, "change": {"heads": {"layers.0.attention": [0]}}}
    heads = {"inputs": asked["inputs"]}
    for chosen, place in (({}, 2), ({"token": 1}, 1)):
        answer = explorer.answer("what-if", {**asked, **chosen})
        for spoken in (answer["original"], answer["given"]):
            assert spoken["outputs"] == (place,)
            expected = torch.tensor(spoken["probabilities"][place]).log()
            assert spoken["log_probability"] == pytest.approx(float(expected), rel=1e-4)
        found = explorer.answer("heads", {**heads, **chosen})
        assert found["outputs"] == (place,)
        change = answer["given"]["log_probability"] - answer["original"]["log_probability"]
        assert found["effects"]["layers.0.attention"][0] == pytest.approx(change, rel=1e-3, abs=1e-5)
    nothing = explorer.answer("heads", {"inputs": {"text": "the dog"}})
    assert (nothing["outputs"], nothing["effects"]) == ((), {})
    with pytest.raises(ValueError, match="token 99 is out of range; the output has 5 tokens"):
        explorer.answer("heads", {**heads, "token": 99})


def test_a_continuation_is_compared_after_another_prompt() -> None:
    explorer = Explorer(completer("characters"), "bard")
    asked = {"inputs": {"text": "ROMEO:"}, "target": "\nO", "other": {"text": "O ROMEO:"}}
    answer = explorer.answer("what-if", asked)
    assert answer["original"]["outputs"] == (5, 6, 7)
    assert answer["given"]["outputs"] == (7, 8, 9)
    for spoken in (answer["original"], answer["given"]):
        assert [spoken["pieces"][i] for i in spoken["outputs"][:2]] == ["\n", "O"]
    one = explorer.answer("what-if", {**asked, "token": 6})
    assert one["given"]["outputs"] == (8,)
    assert one["given"]["log_probability"] == pytest.approx(
        float(torch.tensor(answer["given"]["probabilities"][8]).log()), rel=1e-4
    )
