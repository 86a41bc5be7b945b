from functools import partial

import pytest
import torch

from completers import completer
from helpers import assert_same
from regard.blocks.capture import intervene
from regard.explain import importance
from regard.explain.importance import early_answers, head_effects, rollout
from regard.explain.trace import Trace
from regard.explain.view import AttentionView
from regard.models.heads import ClassificationHead, PretrainingHead, TaggingHead
from repeating import looped
from repeating import read as read_one
from texts import TOKENIZER, encoder
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


def log_probability(trace: Trace, places: list[int]) -> float:
    """The log-probability of the target tokens at these positions, with what is dropped at the moment."""
    logs_TV = trace.run()[0].log_softmax(-1)
    return sum(float(logs_TV[place, trace.target.tokens[place]]) for place in places)


def effects_by_hand(trace: Trace, places: list[int]) -> dict[str, list[float]]:
    """The effect of each head on these positions, with one intervention per head."""
    whole, found = log_probability(trace, places), {}
    for look in trace.looks:
        found[look.path] = []
        for head in range(look.heads):
            with intervene(trace.model, drop_heads={look.path: [head]}):
                found[look.path].append(log_probability(trace, places) - whole)
    return found


def masked() -> Trace:
    return encoder(PretrainingHead()).trace("the [MASK] dog ran to the [MASK]")


def tagged() -> Trace:
    return encoder(TaggingHead(labels=("N", "V", "X"))).trace("the children ran")


def continued() -> Trace:
    return completer("characters").trace("ROMEO:", "\nO")


def test_the_output_is_what_the_model_is_used_to_predict() -> None:
    mask = TOKENIZER.mask
    assert masked().outputs() == tuple(i for i, x in enumerate(masked().streams["text"].tokens) if x == mask)
    assert len(masked().outputs()) == 2
    firsts = [place for place, word in enumerate(tagged().target.layout.words) if word >= 0]
    assert tagged().outputs() == tuple(firsts)
    assert 3 == len(firsts) < len(tagged().target.tokens)  # without [CLS], [SEP] and later pieces of words
    assert continued().outputs() == (5, 6, 7)  # the colon predicts the first character of the continuation
    assert read("transformer").outputs() == (0, 1, 2, 3)
    assert encoder(ClassificationHead(labels=("bad", "good"))).trace("good food").outputs() == (0,)


@pytest.mark.parametrize("make", [masked, tagged, continued, partial(read, "transformer")])
def test_the_effect_of_a_head_counts_the_output_only_or_one_chosen_token(make) -> None:
    trace = make()
    every = list(range(len(trace.target.tokens)))
    for token, places in ((None, list(trace.outputs())), (1, [1])):
        expected = effects_by_hand(trace, places)
        for path, effects in head_effects(trace, token).items():
            assert effects.tolist() == pytest.approx(expected[path], rel=1e-5, abs=1e-6)  # kept in float32
        if places != every:
            assert expected != effects_by_hand(trace, every)


def test_without_an_output_a_token_must_be_chosen() -> None:
    trace = encoder(PretrainingHead()).trace("the dog ran")
    with pytest.raises(ValueError, match="there is no output to explain, .* predicts nothing for this input; choose a"):
        head_effects(trace)
    assert head_effects(trace, 2)
    with pytest.raises(ValueError, match="token 9 is out of range; the output has 5 tokens"):
        head_effects(trace, 9)


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
