from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import assert_same, padded_tokens, randomise
from regard.blocks.attend import Attend, attend_explicitly
from regard.blocks.attention import MultiHeadAttention
from regard.blocks.capture import capture, intervene
from regard.blocks.recurrent import AttentiveCell
from regard.blocks.scores import AdditiveScore, DotScore, ScoredAttention
from regard.errors import RegardError
from regard.models.transformer import Transformer, TransformerConfig
from repeating import Both

SHAPE = {"vocab_size": 11, "width": 8, "heads": 2, "ff_width": 12, "encoder_layers": 2, "decoder_layers": 2}
SOURCE = padded_tokens([5, 3])
TARGET = padded_tokens([4, 4])


def make(**changes: Any) -> Transformer:
    return randomise(TransformerConfig(**{**SHAPE, **changes}).build()).eval()


def make_cell(score: nn.Module) -> tuple[AttentiveCell, Any]:
    cell = randomise(AttentiveCell("gru", 3, 4, memory_width=5, attention=ScoredAttention(score)))
    memory, final = torch.randn(2, 6, 5, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)
    return cell, cell.start(memory, final, torch.arange(6) >= torch.tensor([[6], [4]]))


def test_capture_does_not_change_the_logits() -> None:
    model = make()
    before = model(SOURCE, TARGET)
    with capture(model) as maps:
        during = model(SOURCE, TARGET)
    assert torch.equal(before, during)
    assert torch.equal(before, model(SOURCE, TARGET))
    assert set(maps) == {
        "encoder.layers.0.attention", "encoder.layers.1.attention", "decoder.layers.0.attention",
        "decoder.layers.1.attention", "decoder.layers.0.cross", "decoder.layers.1.cross",
    }  # fmt: skip


def test_captured_weights_equal_those_of_explicit_attention() -> None:
    attention = MultiHeadAttention(8, 2).double()
    x, memory = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 5, 8, dtype=torch.float64)
    allowed = (SOURCE != 0)[:, None, None]
    with capture(attention) as maps:
        found = attention(x, memory, allowed)
    key, value = attention.remember(memory)
    query = attention.query(x).view(2, 3, 2, 4).transpose(1, 2)
    expected, weights = attend_explicitly(query, key, value, allowed)
    assert torch.equal(maps[""], weights)
    assert_same(found, attention.out(expected.transpose(1, 2).flatten(2)))
    assert_same(maps[""].sum(-1), torch.ones(2, 2, 3, dtype=torch.float64))
    assert (maps[""][1, :, :, 3:] == 0).all()
    assert not maps[""].requires_grad


def test_only_selected_layers_heads_and_rows_are_captured() -> None:
    model = make()
    with capture(model) as all_maps:
        model(SOURCE, TARGET)
    with capture(model, layers="decoder.*", heads=[1], rows=[3, 0]) as maps:
        model(SOURCE, TARGET)
    assert len(maps) == 4
    for path, weights in maps.items():
        assert_same(weights, all_maps[path][:, [1]][:, :, [3, 0]])
        # a copy, not a view that would keep all heads and rows in memory
        assert weights.untyped_storage().nbytes() == weights.numel() * weights.element_size()


class LargestTensor(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operation returns."""

    elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def test_capturing_one_row_needs_no_quadratic_memory() -> None:
    length = 2048
    attention = MultiHeadAttention(8, 2).eval()
    with torch.no_grad(), LargestTensor() as largest, capture(attention, heads=[0], rows=[5]) as maps:
        attention(torch.randn(1, length, 8))
    assert maps[""].shape == (1, 1, 1, length)
    # no tensor of size length × length, only of size length × width
    assert largest.elements <= length * 8 * 4


def test_incremental_decoding_gives_the_same_attention_maps() -> None:
    model = make()
    with capture(model) as whole:
        model(SOURCE, TARGET)
    with torch.no_grad(), capture(model) as stitched, capture(model, rows=[2, 1]) as some:
        state = model.start(SOURCE)
        for tokens in TARGET.unbind(1):
            _, state = model.step(tokens, state)
    for path in whole:
        assert_same(stitched[path], whole[path])
        assert_same(some[path], whole[path][:, :, [2, 1]])


def test_recurrent_attention_is_captured_step_by_step() -> None:
    cell, state = make_cell(AdditiveScore(4, 5, 4))
    expected = []
    with capture(cell, "attention") as maps:
        for _ in range(3):
            _, state = cell(torch.randn(2, 3, dtype=torch.float64), state)
            expected.append(state.weights_BS)
    assert torch.equal(maps["attention"], torch.stack(expected, dim=1)[:, None])


def test_hooks_are_removed_even_after_an_error() -> None:
    model = make()
    before = model(SOURCE, TARGET)
    with pytest.raises(RuntimeError, match="stop"), capture(model), intervene(model, drop_mask="*"):
        raise RuntimeError("stop")
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.equal(model(SOURCE, TARGET), before)


def test_invalid_captures_raise_an_error() -> None:
    model = make()
    with pytest.raises(ValueError, match=r"no attention matches 'encoder\.cross'; this model has 'encoder\.layers\.0"):
        capture(model, "encoder.cross").__enter__()
    with pytest.raises(ValueError, match=r"no attention matches '\*'; this model has none"):
        capture(nn.Linear(2, 2)).__enter__()
    for numbers in ([], [-1], [2, 2]):
        with pytest.raises(ValueError, match="distinct indices from 0, at least one"):
            capture(model, rows=numbers).__enter__()
    with capture(model, "encoder.*") as maps:
        pass
    with pytest.raises(KeyError, match=r"'encoder\.layers\.0\.attention' did not run"):
        maps["encoder.layers.0.attention"]
    with pytest.raises(KeyError, match=r"'decoder\.layers\.0\.cross' was not captured; captured: 'encoder"):
        maps["decoder.layers.0.cross"]
    with pytest.raises(ValueError, match="heads should be distinct indices from 0"):
        capture(model, heads=[1, 1]).__enter__()
    for patterns in (["*", "nowhere"], "decoder.layers.0"):
        with pytest.raises(ValueError, match="no attention matches"):
            capture(model, patterns).__enter__()
    with capture(model) as maps:
        model.encode(SOURCE)
    assert list(maps) == ["encoder.layers.0.attention", "encoder.layers.1.attention"]
    assert len(maps) == 2
    with capture(model, "encoder.*", rows=[5]) as maps:
        model(SOURCE, TARGET)
    with pytest.raises(RegardError, match="row 5 of"):
        maps["encoder.layers.0.attention"]
    with capture(model, "encoder.*", rows=[1, 7]) as maps:
        model(SOURCE, TARGET)
    assert "encoder.layers.0.attention" in maps
    assert "decoder.layers.0.cross" not in maps
    with pytest.raises(RegardError, match="row 7 of .* does not exist: there were 5 rows"):
        maps["encoder.layers.0.attention"]
    with (
        pytest.raises(RegardError, match="head 2 of .* does not exist: there are 2 heads"),
        capture(model, heads=[2]),
    ):
        model(SOURCE, TARGET)
    with capture(model, "encoder.layers.0.attention") as maps:
        model(SOURCE, TARGET)
        model(SOURCE[:1], TARGET[:1])
    with pytest.raises(ValueError, match="ran with different batches; use one capture for each run"):
        maps["encoder.layers.0.attention"]


def test_dropping_a_head_equals_zeroing_its_output_weights() -> None:
    model, by_hand = make(), make()
    by_hand.load_state_dict(model.state_dict())
    with torch.no_grad():
        by_hand.decoder.layers[1].cross.out.weight[:, 4:] = 0  # head 1 of 2; each has four dimensions
    with intervene(model, drop_heads={"decoder.layers.1.cross": [1]}):
        changed = model(SOURCE, TARGET)
    assert_same(changed, by_hand(SOURCE, TARGET))
    assert not torch.allclose(changed, model(SOURCE, TARGET))


def test_dropping_the_mask_equals_attention_without_a_mask() -> None:
    attention = MultiHeadAttention(8, 2).double()
    x, allowed = torch.randn(2, 5, 8, dtype=torch.float64), (SOURCE != 0)[:, None, None]
    with intervene(attention, drop_mask="*"):
        assert torch.equal(attention(x, allowed=allowed), attention(x))
    assert not torch.allclose(attention(x, allowed=allowed), attention(x))


def test_without_the_causal_mask_future_tokens_change_past_logits() -> None:
    model = make()
    later = TARGET.clone()
    later[:, -1] = 1 + later[:, -1] % 10
    assert torch.equal(model(SOURCE, later)[:, :-1], model(SOURCE, TARGET)[:, :-1])
    with intervene(model, drop_mask="decoder.layers.*.attention"):
        assert not torch.allclose(model(SOURCE, later)[:, :-1], model(SOURCE, TARGET)[:, :-1])


def test_dropping_scaling_equals_queries_times_the_square_root_of_the_head_width() -> None:
    model, by_hand = make(), make()
    by_hand.load_state_dict(model.state_dict())
    with torch.no_grad():
        for layer in by_hand.encoder.layers:
            for parameter in layer.attention.query.parameters():
                parameter *= 2  # √4
    with intervene(model, drop_scaling="encoder.*"):
        assert_same(model(SOURCE, TARGET), by_hand(SOURCE, TARGET))
    assert not torch.allclose(model(SOURCE, TARGET), by_hand(SOURCE, TARGET))


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_split", "fourier", "learned", "rotary"])
def test_dropping_positions_equals_a_model_without_positions(kind) -> None:
    model, by_hand = make(positions=kind), make(positions="none")
    by_hand.load_state_dict({n: p for n, p in model.state_dict().items() if "positions" not in n})
    with intervene(model, drop_positions="*"):
        assert_same(model(SOURCE, TARGET), by_hand(SOURCE, TARGET))
    assert not torch.allclose(model(SOURCE, TARGET), by_hand(SOURCE, TARGET))


def test_dropping_concatenated_positions_equals_zero_positions() -> None:
    model = make(positions="learned", position_merge="concatenate", tied=False)
    with intervene(model, drop_positions=["encoder.positions", "decoder.positions"]):
        changed = model(SOURCE, TARGET)
    assert not torch.allclose(changed, model(SOURCE, TARGET))
    with torch.no_grad():
        for half in (model.encoder, model.decoder):
            half.positions.encoding.weight.zero_()
    assert_same(changed, model(SOURCE, TARGET))


def test_interventions_apply_to_recurrent_attention() -> None:
    cell, state = make_cell(DotScore(4, 5, scaled=True))
    x = torch.randn(2, 3, dtype=torch.float64)
    plain, _ = make_cell(DotScore(4, 5, scaled=False))
    plain.load_state_dict(cell.state_dict())
    with intervene(cell, drop_scaling="attention"):
        assert_same(cell(x, state)[0], plain(x, state)[0])
    with intervene(cell.attention, drop_scaling=""):
        assert_same(cell(x, state)[0], plain(x, state)[0])
    assert not torch.allclose(cell(x, state)[0], plain(x, state)[0])
    with intervene(cell, drop_mask="attention"):
        assert (cell(x, state)[1].weights_BS > 0).all()
    with intervene(cell, drop_heads={"attention": [0]}):
        assert (cell(x, state)[0][:, 4:] == 0).all()


def test_interventions_may_be_nested() -> None:
    cell, state = make_cell(DotScore(4, 5, scaled=True))
    x = torch.randn(2, 3, dtype=torch.float64)
    with intervene(cell, drop_scaling="*"):
        once = cell(x, state)[0]
        with intervene(cell, drop_scaling="*"):
            assert torch.equal(cell(x, state)[0], once)
        assert torch.equal(cell(x, state)[0], once)
    assert not torch.allclose(cell(x, state)[0], once)


class TwoCores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = Attend(2), Attend(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.near(x, x, x, None, 1.0) + self.far(x, x, x, None, 2.0)


def test_two_attention_cores_of_a_module_have_separate_names() -> None:
    model, x = TwoCores(), torch.randn(1, 2, 3, 4)
    with capture(model) as maps:
        model(x)
    assert set(maps) == {"near", "far"}
    with intervene(model, drop_heads={"*": [0, 1]}):
        assert (model(x) == 0).all()


def test_a_custom_attention_core_supports_capture_and_interventions() -> None:
    model, x = Both(), torch.randn(1, 4, 8, dtype=torch.float64)
    with capture(model) as maps, capture(model, "near", heads=[1], rows=[2]) as some:
        model(x)
    assert maps["near"].shape == (1, 2, 4, 4)
    assert maps["far"].shape == (1, 4, 4, 4)
    assert maps["near"][0, 0].bool().tolist() == [[abs(i - j) <= 1 for j in range(4)] for i in range(4)]
    assert torch.equal(some["near"], maps["near"][:, [1]][:, :, [2]])
    with intervene(model, drop_mask="near", drop_scaling="near"), capture(model, "near") as changed:
        model(x)
    query = x.unflatten(2, (2, 4)).transpose(1, 2)
    assert_same(changed["near"], (query @ query.mT).softmax(-1))
    with intervene(model, drop_heads={"near": [0, 1], "far": [0, 1, 2, 3]}):
        assert (model(x) == 0).all()
    with pytest.raises(RegardError, match="head 2 of 'near' does not exist: there are 2 heads"):
        capture(model, heads=[2]).__enter__()


def test_captured_weights_in_half_precision_have_no_nan() -> None:
    attention = MultiHeadAttention(64, 1, bias=False).bfloat16()
    with capture(attention) as maps:
        attention(100 * torch.randn(1, 3, 64, dtype=torch.bfloat16))
    assert_same(maps[""].sum(-1), torch.ones(1, 1, 3))


def test_invalid_interventions_raise_an_error() -> None:
    cell, _ = make_cell(AdditiveScore(4, 5, 4))
    with pytest.raises(ValueError, match="'attention' has no scaling to drop"):
        intervene(cell, drop_scaling="*").__enter__()
    model = make()
    with pytest.raises(ValueError, match="no attention matches 'nowhere'"):
        intervene(model, drop_heads={"nowhere": [0]}).__enter__()
    with pytest.raises(ValueError, match=r"no positions matches 'x'; this model has 'encoder\.positions', 'decoder"):
        intervene(model, drop_positions="x").__enter__()
    for heads in ([2], [], [-1]):
        with (
            pytest.raises(RegardError, match="heads should be indices from 0 to 1"),
            intervene(model, drop_heads={"*": heads}),
        ):
            model(SOURCE, TARGET)


def test_capture_inside_intervene_shows_the_changed_weights() -> None:
    model = make()
    with intervene(model, drop_mask="encoder.*"), capture(model, "encoder.layers.0.attention") as maps:
        model(SOURCE, TARGET)
    assert (maps["encoder.layers.0.attention"][1, :, :, 3:] > 0).all()
