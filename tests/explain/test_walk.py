import math
from pathlib import Path

import pytest
import torch

import regard
from helpers import assert_same
from readings import MODELS, read
from regard.blocks.capture import capture
from regard.explain.walk import parts, walk


def outputs(reading, path: str, call: int) -> torch.Tensor:
    """What the module of a part gives, in the model as it runs: (tokens, width)."""
    seen = []
    with torch.no_grad():
        handle = reading.model.get_submodule(path).register_forward_hook(lambda _m, _a, output: seen.append(output))
        reading.run()
        handle.remove()
    seen = [output[0] if isinstance(output, tuple) else output for output in seen]
    if seen[0].dim() == 2:  # a cell, once for each token: the state, then the context
        return torch.cat([output[:, : reading.model.decoder.width] for output in seen])
    return seen[call][0]


@pytest.mark.parametrize("name", MODELS)
def test_a_walk_ends_with_what_the_part_really_gives(name) -> None:
    reading = read(name)
    for part in parts(reading.model):
        expected = outputs(reading, part.path, part.call)
        for token in range(len(reading.streams[part.stream].tokens)):
            assert_same(walk(reading, part.path, token)[-1].values, expected[token])


@pytest.mark.parametrize("name", MODELS)
def test_every_step_names_a_line_of_the_source(name) -> None:
    reading = read(name)
    source = Path(regard.__file__).parent.parent
    for part in parts(reading.model):
        for step in walk(reading, part.path, 1):
            if step.code is not None:
                lines = (source / step.code.file).read_text("utf-8").splitlines()
                assert lines[step.code.line - 1].strip() == step.code.text
            assert step.values.dim() == len(step.axes)


def test_each_step_follows_from_the_one_before() -> None:
    reading = read("transformer, norm before")
    model = reading.model
    steps = {step.name: step.values for step in walk(reading, "decoder.layers.1", 2, head=1)}
    order = [step.name for step in walk(reading, "decoder.layers.1", 2, head=1)]
    attention = ["query", "keys", "values", "dot products", "scaled", "mask", "softmax", "weighted sum", "heads joined"]
    without_mask = [name for name in attention if name != "mask"]
    assert order == [
        *("norm", *attention, "W_O", "add"),
        *("norm", *without_mask, "W_O", "add"),
        *("norm", "feed-forward, inner", "feed-forward", "add"),
    ]
    layer = model.decoder.layers[1]
    # the names of the second attention, which looks at the source, hide those of the first
    assert_same(steps["dot products"], steps["keys"] @ steps["query"])
    assert_same(steps["scaled"], steps["dot products"] / math.sqrt(4))
    assert_same(steps["softmax"], steps["scaled"].softmax(0))
    assert_same(steps["weighted sum"], steps["softmax"] @ steps["values"])
    assert_same(steps["heads joined"][4:], steps["weighted sum"])
    assert_same(steps["W_O"], layer.cross.out(steps["heads joined"]))
    assert_same(steps["feed-forward"], layer.feedforward.outer(steps["feed-forward, inner"]))
    before = [step.values for step in walk(reading, "decoder.layers.1", 2) if step.name == "add"][1]
    assert_same(steps["add"], before + steps["feed-forward"])
    assert_same(steps["norm"], layer.feedforward_residual.norm(before[None, None])[0, 0])


def test_the_mask_hides_the_future_and_softmax_gives_it_nothing() -> None:
    steps = {step.name: step.values for step in walk(read("transformer"), "decoder.layers.0", 1)[:8]}
    assert steps["mask"].isnan().tolist() == [False, False, True, True]
    assert steps["softmax"][2:].tolist() == [0, 0]
    assert_same(steps["softmax"][:2], steps["scaled"][:2].softmax(0))


@pytest.mark.parametrize("name", ["transformer, rotary", "rnn", "rnn, scaled dot", "rnn, location", "conv"])
def test_the_weights_of_a_walk_are_those_that_capture_gives(name) -> None:
    reading = read(name)
    with capture(reading.model) as maps:
        reading.run()
    for path in [part.path for part in parts(reading.model) if part.path.startswith("decoder")]:
        found = [step for step in walk(reading, path, 2) if step.name == "softmax"]
        owned = [weights for other, weights in maps.items() if other.startswith(path)]
        assert len(found) == len(owned)
        for step, weights in zip(found, owned, strict=True):
            assert_same(step.values, weights[0, 0, 2, : len(step.values)])


def test_rotary_turns_what_the_matrices_give() -> None:
    reading = read("transformer, rotary")
    steps = {step.name: step.values for step in walk(reading, "encoder.layers.0", 3, head=1)}
    rotary = reading.model.encoder.layers[0].attention.rotary
    assert_same(steps["query, turned"], rotary(steps["query"][None, None, None], 3)[0, 0, 0])


def test_one_table_serves_two_streams() -> None:
    reading = read("transformer")
    (source,) = walk(reading, "source_embedding", 1)
    (target,) = walk(reading, "target_embedding", 1)
    table = reading.model.target_embedding
    assert_same(source.values, table.weight[4] * math.sqrt(8))
    assert_same(target.values, table.weight[7] * math.sqrt(8))


def test_what_is_not_there_is_named() -> None:
    reading = read("transformer")
    with pytest.raises(ValueError, match="no part is at 'decoder.layers.7'; this model has 'source_embedding'"):
        walk(reading, "decoder.layers.7", 0)
    with pytest.raises(ValueError, match="token 9 of 5 was asked for"):
        walk(reading, "encoder.layers.0", 9)
    with pytest.raises(ValueError, match="head 2 of 2 was asked for"):
        walk(reading, "encoder.layers.0", 0, head=2)
