import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu

import regard
from helpers import assert_same, randomise
from regard.blocks.capture import capture
from regard.explain.trace import Trace, looks
from regard.explain.walk import OUTPUT, output_part, parts, top_outputs, walk
from regard.models.heads import ClassificationHead, NoHead, PretrainingHead, RegressionHead, TaggingHead
from repeating import TwoCores, looped
from repeating import read as read_one
from texts import encoder
from traces import MODELS, read


def outputs(trace, path: str, call: int) -> torch.Tensor:
    """The output of a part's module in a forward pass: (tokens, width)."""
    seen = []
    with torch.no_grad():
        handle = trace.model.get_submodule(path).register_forward_hook(lambda _m, _a, output: seen.append(output))
        trace.run()
        handle.remove()
    seen = [output[0] if isinstance(output, tuple) else output for output in seen]
    if seen[0].dim() == 2:  # a cell, called once per token: the state, then the context
        return torch.cat([output[:, : trace.model.decoder.width] for output in seen])
    return seen[call][0]


@pytest.mark.parametrize("name", MODELS)
def test_a_walk_ends_with_the_actual_output_of_the_part(name) -> None:
    trace = read(name)
    for part in parts(trace.model):
        expected = outputs(trace, part.path, part.call)
        for token in range(len(trace.streams[part.stream].tokens)):
            assert_same(walk(trace, part.path, token)[-1].values, expected[token])


@pytest.mark.parametrize("name", MODELS)
def test_every_step_names_a_line_of_the_source(name) -> None:
    trace = read(name)
    source = Path(regard.__file__).parent.parent
    for part in parts(trace.model):
        for step in walk(trace, part.path, 1):
            if step.code is not None:
                lines = (source / step.code.file).read_text("utf-8").splitlines()
                assert lines[step.code.line - 1].strip() == step.code.text
            assert step.values.dim() == len(step.axes)


def test_each_step_follows_from_the_one_before() -> None:
    trace = read("transformer, norm before")
    model = trace.model
    steps = {step.name: step.values for step in walk(trace, "decoder.layers.1", 2, head=1)}
    order = [step.name for step in walk(trace, "decoder.layers.1", 2, head=1)]
    attention = ["query", "keys", "values", "dot products", "scaled", "mask", "softmax", "weighted sum", "joined heads"]
    without_mask = [name for name in attention if name != "mask"]
    assert order == [
        *("norm", *attention, "W_O", "add"),
        *("norm", *without_mask, "W_O", "add"),
        *("norm", "feed-forward, inner", "feed-forward", "add"),
    ]
    layer = model.decoder.layers[1]
    # the names of the cross-attention, which comes second, overwrite those of the self-attention
    assert_same(steps["dot products"], steps["keys"] @ steps["query"])
    assert_same(steps["scaled"], steps["dot products"] / math.sqrt(4))
    assert_same(steps["softmax"], steps["scaled"].softmax(0))
    assert_same(steps["weighted sum"], steps["softmax"] @ steps["values"])
    assert_same(steps["joined heads"][4:], steps["weighted sum"])
    assert_same(steps["W_O"], layer.cross.out(steps["joined heads"]))
    assert_same(steps["feed-forward"], layer.feedforward.outer(steps["feed-forward, inner"]))
    before = [step.values for step in walk(trace, "decoder.layers.1", 2) if step.name == "add"][1]
    assert_same(steps["add"], before + steps["feed-forward"])
    assert_same(steps["norm"], layer.feedforward_residual.norm(before[None, None])[0, 0])


@pytest.mark.parametrize("name", MODELS)
def test_the_output_follows_from_the_last_hidden_state(name) -> None:
    trace = read(name)
    *_, last = (part for part in parts(trace.model) if part.stream == "target")
    assert output_part(trace).stream == "target"
    weight_VD, bias_V = trace.model.output_parameters()
    for token in range(4):
        hidden_D = walk(trace, last.path, token)[-1].values
        *before, logits, softmax = walk(trace, OUTPUT, token)
        assert [step.name for step in before] == (["tanh"] if name.startswith("rnn") else [])
        hidden_D = hidden_D.tanh() if before else hidden_D
        assert_same(logits.values, weight_VD @ hidden_D + (0 if bias_V is None else bias_V))
        assert torch.equal(logits.values, trace.run()[0, token])
        assert_same(softmax.values, logits.values.softmax(0))
        assert logits.shape == softmax.shape == "4 × 9"


HEADS = {
    "words": (PretrainingHead(), ["head", "norm", "logits", "softmax"]),
    "classification": (ClassificationHead(labels=("bad", "good")), ["pooled", "logits", "softmax"]),
    "regression": (RegressionHead(), ["pooled", "logits"]),
    "tagging": (TaggingHead(labels=("N", "V", "X")), ["logits", "softmax"]),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_output_of_an_encoder_goes_through_its_head(name) -> None:
    head, names = HEADS[name]
    trace = encoder(head).trace("the [MASK] dog ran")
    token = 0 if names[0] == "pooled" else 2
    steps = {step.name: step.values for step in walk(trace, OUTPUT, token)}
    assert list(steps) == names
    model, hidden_D = trace.model, walk(trace, "layers.1", token)[-1].values
    if "head" in steps:
        assert_same(steps["head"], gelu(model.head.dense(hidden_D)))
        assert_same(steps["norm"], model.head.norm(steps["head"][None, None])[0, 0])
        assert_same(steps["logits"], model.tokens.weight @ steps["norm"] + model.head.bias)
    else:
        pooled_D = steps.get("pooled", hidden_D)
        assert_same(steps["logits"], model.head[1](pooled_D))
    if "pooled" in steps:
        assert_same(steps["pooled"], torch.tanh(nn.functional.linear(hidden_D, model.pooler.weight, model.pooler.bias)))
    assert torch.equal(steps["logits"], trace.run()[0, token])
    if "softmax" in steps:
        best = top_outputs(walk(trace, OUTPUT, token)[-1], 1)
        assert best == [int(trace.run()[0, token].argmax())]


def test_an_encoder_without_a_head_has_no_output() -> None:
    trace = encoder(NoHead()).trace("the dog")
    assert output_part(trace) is None
    with pytest.raises(ValueError, match="no part 'output'; this model has 'tokens'"):
        walk(trace, OUTPUT, 0)


def test_the_mask_hides_the_future_and_softmax_gives_it_zero_weight() -> None:
    steps = {step.name: step.values for step in walk(read("transformer"), "decoder.layers.0", 1)[:8]}
    assert steps["mask"].isnan().tolist() == [False, False, True, True]
    assert steps["softmax"][2:].tolist() == [0, 0]
    assert_same(steps["softmax"][:2], steps["scaled"][:2].softmax(0))


@pytest.mark.parametrize("name", ["transformer, rotary", "rnn", "rnn, scaled dot", "rnn, location", "conv"])
def test_the_weights_of_a_walk_are_the_captured_weights(name) -> None:
    trace = read(name)
    with capture(trace.model) as maps:
        trace.run()
    for path in [part.path for part in parts(trace.model) if part.path.startswith("decoder")]:
        found = [step for step in walk(trace, path, 2) if step.name == "softmax"]
        owned = [weights for other, weights in maps.items() if other.startswith(path)]
        assert len(found) == len(owned)
        for step, weights in zip(found, owned, strict=True):
            assert_same(step.values, weights[0, 0, 2, : len(step.values)])


def test_rotary_positions_rotate_queries_and_keys() -> None:
    trace = read("transformer, rotary")
    steps = {step.name: step.values for step in walk(trace, "encoder.layers.0", 3, head=1)}
    rotary = trace.model.encoder.layers[0].attention.rotary
    assert_same(steps["rotated query"], rotary(steps["query"][None, None, None], 3)[0, 0, 0])


def test_one_embedding_serves_two_streams() -> None:
    trace = read("transformer")
    (source,) = walk(trace, "source_embedding", 1)
    (target,) = walk(trace, "target_embedding", 1)
    table = trace.model.target_embedding
    assert_same(source.values, table.weight[4] * math.sqrt(8))
    assert_same(target.values, table.weight[7] * math.sqrt(8))


def test_unknown_parts_tokens_and_heads_are_reported() -> None:
    trace = read("transformer")
    with pytest.raises(ValueError, match="no part 'decoder.layers.7'; this model has 'source_embedding'"):
        walk(trace, "decoder.layers.7", 0)
    with pytest.raises(ValueError, match="token 9 is out of range; the stream has 5 tokens"):
        walk(trace, "encoder.layers.0", 9)
    with pytest.raises(ValueError, match="head 2 is out of range; there are 2 heads"):
        walk(trace, "encoder.layers.0", 0, head=2)


def results(trace: Trace, path: str) -> list[torch.Tensor]:
    """The output of each call of a module: (tokens, width)."""
    seen: list[torch.Tensor] = []
    handle = trace.model.get_submodule(path).register_forward_hook(lambda _m, _a, output: seen.append(output[0]))
    trace.run()
    handle.remove()
    return seen


def test_a_layer_that_runs_three_times_is_three_parts() -> None:
    trace = read_one(looped())
    assert [part.path for part in parts(trace.model)] == ["tokens", "layer@0", "layer@1", "layer@2", "norm"]
    assert {part.call for part in parts(trace.model)} == {0}
    weights = trace.weights("*")
    for depth, expected in enumerate(results(trace, "layer")):
        for token in range(5):
            steps = walk(trace, f"layer@{depth}", token, head=1)
            assert torch.equal(steps[-1].values, expected[token])
            (softmax,) = (step.values for step in steps if step.name == "softmax")
            assert_same(softmax, weights[f"layer.attention@{depth}"][1, token])
    with pytest.raises(ValueError, match="no part 'layer'; this model has 'tokens', 'layer@0'"):
        walk(trace, "layer", 0)


def test_a_part_that_contains_a_repeated_layer_ends_with_its_last_call() -> None:
    trace = read_one(nn.Sequential(looped()))
    trace.model.parts, trace.model.looks = {"0": "text"}, {}
    steps = walk(trace, "0", 1)
    assert [step.name for step in steps].count("softmax") == 3
    assert steps[-1].name == "norm"
    assert torch.equal(steps[-1].values, results(trace, "0.norm")[0][1])


def test_a_depth_that_did_not_run_is_reported() -> None:
    trace = read_one(looped())
    trace.model.stops = 2
    assert walk(trace, "layer@1", 0)
    with pytest.raises(ValueError, match="'layer@2' did not run; this model may stop at an earlier layer"):
        walk(trace, "layer@2", 0)


def test_a_module_with_two_attention_cores_has_steps_for_each() -> None:
    trace = read_one(randomise(TwoCores()))
    assert [(look.path, look.heads) for look in looks(trace.model)] == [("both.near", 2), ("both.far", 4)]
    (expected,) = results(trace, "both")
    steps = walk(trace, "both", 2)
    assert [step.name for step in steps] == [
        *("query", "softmax", "weighted sum"),
        *("query", "keys", "values", "dot products", "scaled", "softmax", "weighted sum", "add"),
    ]
    assert all(step.code is None or step.code.file == "regard/blocks/attend.py" for step in steps)
    assert_same(steps[0].values, trace.model.tokens(trace.inputs[0])[0, 2, :4])
    assert torch.equal(steps[-1].values, expected[2])
    # the first core has no third head
    assert [step.name for step in walk(trace, "both", 2, head=2)] == [step.name for step in steps[3:]]
    with pytest.raises(ValueError, match="head 4 is out of range; there are 4 heads"):
        walk(trace, "both", 2, head=4)
