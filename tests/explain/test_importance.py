import pytest
import torch

from helpers import assert_same
from regard.blocks.capture import intervene
from regard.explain import importance
from regard.explain.importance import early_answers, head_effects, rollout
from regard.explain.view import AttentionView
from repeating import looped
from repeating import read as read_one
from traces import MODELS, read


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("logits", [2**26, 100])
def test_the_effect_of_a_head_is_that_of_ablating_it(name, logits, monkeypatch) -> None:
    monkeypatch.setattr(importance, "MAX_LOGITS", logits)  # a low limit requires several forward passes
    trace = read(name)
    whole = trace.log_probabilities(trace.run()).sum()
    effects = head_effects(trace)
    assert set(effects) == {look.path for look in trace.looks}
    for look in trace.looks:
        for head in range(look.heads):
            with intervene(trace.model, drop_heads={look.path: [head]}):
                changed = trace.log_probabilities(trace.run()).sum()
            assert_same(effects[look.path][head].double(), changed - whole, 1e-6)  # kept in float32
    assert_same(trace.log_probabilities(trace.run()).sum(), whole)


def test_rollout_goes_through_all_layers() -> None:
    trace = read("transformer")
    maps = trace.weights("*")
    half = torch.eye(5, dtype=torch.float64)
    one, two = (maps[f"encoder.layers.{i}.attention"].mean(0) for i in (0, 1))
    source = (two + half) / 2 @ ((one + half) / 2)
    found = rollout(trace)
    assert_same(found["source", "source"], source)
    cross = torch.stack([maps[f"decoder.layers.{i}.cross"].mean(0) for i in (0, 1)]).mean(0)
    assert_same(found["target", "source"], cross @ source)
    for weights in found.values():
        assert_same(weights.sum(1), torch.ones(len(weights), dtype=torch.float64))
    assert found["target", "target"].triu(1).abs().max() == 0  # the future stays masked


def test_rollout_of_a_model_with_cross_attention_only() -> None:
    (pair,) = rollout(read("rnn"))
    assert pair == ("target", "source")


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("rnn")])
def test_the_early_answer_after_the_last_layer_is_the_prediction(name) -> None:
    trace = read(name)
    answers = early_answers(trace)
    *_, last = answers.values()
    probabilities = trace.run()[0].softmax(-1)
    assert [answer.token for answer in last] == probabilities.argmax(-1).tolist()
    assert [answer.probability for answer in last] == pytest.approx(probabilities.max(-1).values.tolist())
    target = [float(row[token]) for row, token in zip(probabilities, trace.target.tokens, strict=True)]
    assert [answer.target for answer in last] == pytest.approx(target)
    assert len(answers) == 2


def test_a_recurrent_model_has_no_early_answers() -> None:
    assert early_answers(read("rnn")) == {}


def test_heads_have_an_effect_at_each_depth() -> None:
    trace = read_one(looped())
    whole = trace.log_probabilities(trace.run()).sum()
    effects = head_effects(trace)
    assert list(effects) == [look.path for look in trace.looks] == [f"layer.attention@{depth}" for depth in range(3)]
    for look in trace.looks:
        for head in range(2):
            with intervene(trace.model, drop_heads={look.path: [head]}):
                changed = trace.log_probabilities(trace.run()).sum()
            assert_same(effects[look.path][head].double(), changed - whole, 1e-6)  # kept in float32
            assert abs(changed - whole) > 1e-6


@pytest.mark.parametrize("stops", [2, 3])
def test_rollout_and_early_answers_go_through_the_depths_that_ran(stops) -> None:
    trace = read_one(looped())
    trace.model.stops = stops
    maps, expected = trace.weights("*"), torch.eye(5, dtype=torch.float64)
    for depth in range(stops):
        step = (maps[f"layer.attention@{depth}"].mean(0) + torch.eye(5, dtype=torch.float64)) / 2
        expected = step @ expected
    assert_same(rollout(trace)["text", "text"], expected)
    answers = early_answers(trace)
    assert list(answers) == [f"layer@{depth}" for depth in range(stops)]
    probabilities = trace.run()[0].softmax(-1)
    assert [answer.probability for answer in answers[f"layer@{stops - 1}"]] == pytest.approx(
        probabilities.max(-1).values.tolist()
    )
    assert answers["layer@0"] != answers["layer@1"]


def test_a_view_shows_one_depth() -> None:
    trace = read_one(looped())
    trace.model.stops = 2
    view = AttentionView(trace, layer="layer.attention@1", head=0, words=False)
    assert_same(view.weights, trace.weights("*@1")["layer.attention@1"][0])
    with pytest.raises(ValueError, match="'layer.attention@2' did not run; this model may stop at an earlier layer"):
        repr(AttentionView(trace, layer="layer.attention@2"))
