"""Capture and interventions in a layer that runs several times distinguish depths from decoding steps."""

import pytest
import torch
from torch import Tensor, nn

from helpers import assert_same
from regard.blocks import masks
from regard.blocks.capture import capture, drop_one_head_each, intervene, position_modules
from regard.blocks.repeated import layers
from repeating import Looped, looped

TOKENS = torch.tensor([[3, 4, 5, 6, 2], [1, 7, 7, 3, 8]])
NAMES = [f"layer.attention@{depth}" for depth in range(3)]


def inputs(model: Looped) -> list[Tensor]:
    """The input of the layer at each depth, and the output of the last."""
    x, causal = [model.tokens(TOKENS)], masks.causal(5, 5)
    for _ in range(3):
        x.append(model.layer(x[-1], causal))
    return x


def test_a_layer_that_runs_three_times_has_three_attention_maps() -> None:
    model = looped()
    with capture(model) as maps:
        logits = model(TOKENS)
    assert torch.equal(logits, model(TOKENS))
    assert list(maps) == NAMES
    for name, x in zip(NAMES, inputs(model), strict=False):
        with capture(model.layer) as alone:
            model.layer(x, masks.causal(5, 5))
        assert torch.equal(maps[name], alone["attention"])
        assert maps[name].shape == (2, 2, 5, 5)


def test_patterns_select_one_depth_or_all() -> None:
    model = looped()
    for pattern, names in (
        ("layer.attention@1", NAMES[1:2]),
        ("*@1", NAMES[1:2]),
        ("layer.attention", NAMES),
        ("layer.*", NAMES),
        (["*@0", "*@2"], NAMES[::2]),
    ):
        with capture(model, pattern) as maps:
            model(TOKENS)
        assert list(maps) == names
    with pytest.raises(ValueError, match="no attention matches '.@3'; this model has 'layer.attention@0', "):
        capture(model, "*@3").__enter__()


def test_incremental_decoding_calls_at_one_depth_become_rows() -> None:
    model = looped()
    with capture(model) as whole:
        model(TOKENS)
    with torch.no_grad(), capture(model) as stitched, capture(model, heads=[1], rows=[4, 2]) as some:
        caches = model.start()
        for tokens in TOKENS.unbind(1):
            model.step(tokens, caches)
    assert list(stitched) == NAMES
    for name in NAMES:
        assert_same(stitched[name], whole[name])
        assert_same(some[name], whole[name][:, [1]][:, :, [4, 2]])


def test_the_depth_restarts_at_the_next_call_of_a_model_that_stops_early() -> None:
    model = looped()
    model.stops = 2
    with capture(model) as once:
        model(TOKENS)
    with capture(model) as twice:
        model(TOKENS)
        model(TOKENS)
    assert list(twice) == NAMES[:2]
    for name in twice:
        assert torch.equal(twice[name], torch.cat((once[name], once[name]), dim=2))


@pytest.mark.parametrize("depth", range(3))
def test_an_intervention_at_one_depth_does_not_affect_the_others(depth) -> None:
    model = looped()
    changes = {
        "drop_heads": {f"*@{depth}": [1]},
        "drop_mask": f"*@{depth}",
        "drop_scaling": f"*@{depth}",
        "drop_positions": f"layer.attention.rotary@{depth}",
    }
    for name, change in changes.items():
        x = inputs(model)[depth]
        with intervene(model.layer, **{name: {"*": [1]} if name == "drop_heads" else "*"}):
            x = model.layer(x, masks.causal(5, 5))
        for _ in range(depth + 1, 3):
            x = model.layer(x, masks.causal(5, 5))
        with intervene(model, **{name: change}):
            assert torch.equal(model(TOKENS), model.answer(x))
        assert not torch.allclose(model(TOKENS), model.answer(x))


def test_each_sentence_drops_one_head_at_one_depth_or_at_every_depth() -> None:
    model = looped()
    tokens = TOKENS[:1].expand(3, -1)
    with drop_one_head_each(model, [("layer.attention@2", 0), ("layer.attention", 1)]):
        changed = model(tokens)
    for row, change in enumerate(({"layer.attention@2": [0]}, {"layer.attention": [1]}, {})):
        with intervene(model, drop_heads=change):
            assert_same(changed[row], model(tokens)[row])
    assert len(changed.sum((1, 2)).unique()) == 3


def test_positions_of_a_repeated_layer_have_a_name_for_each_depth() -> None:
    assert list(position_modules(looped())) == [f"layer.attention.rotary@{depth}" for depth in range(3)]


class Shared(nn.Module):
    """A group of two layers that runs twice, and a list with one layer in three places, two of which run."""

    def __init__(self) -> None:
        super().__init__()
        self.group = nn.Sequential(looped().layer, looped().layer)
        self.list = nn.ModuleList([looped().layer] * 3)
        self.repeated = {"group": 2, "list.0": 3}

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = self.group(x)
        for layer in list(self.list)[:2]:
            x = layer(x)
        return x


def test_captured_names_are_in_execution_order() -> None:
    model, x = Shared(), torch.randn(1, 4, 8, dtype=torch.float64)
    with capture(model) as maps:
        model(x)
        model(x)
    assert list(maps) == [
        *("group.0.attention@0", "group.1.attention@0", "group.0.attention@1", "group.1.attention@1"),
        *("list.0.attention@0", "list.0.attention@1"),
    ]
    for weights in maps.values():  # a ModuleList has no forward: its layers belong to a call of the model
        assert torch.equal(weights[:, :, :4], weights[:, :, 4:])


def test_repeated_modules_may_not_be_nested() -> None:
    model = Shared()
    model.repeated = {"group": 2, "group.1": 2}
    with pytest.raises(AssertionError, match="'group.1' and 'group' are repeated, but one is inside the other"):
        capture(model).__enter__()


def test_layers_are_listed_once_and_inner_ones_first() -> None:
    model = Shared()
    assert layers(model) == [model.list[0], model.group]
    assert [type(layer).__name__ for layer in layers(looped())] == ["EncoderLayer"]
    nested = nn.ModuleList([nn.ModuleList([nn.Linear(1, 1)]), nn.Linear(1, 1)])
    assert layers(nested) == [nested[1], nested[0][0], nested[0]]
    assert layers(nn.Linear(1, 1)) == []
