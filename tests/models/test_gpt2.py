from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_same, randomise, seeds, sizes
from regard.blocks.capture import capture
from regard.blocks.dropout import Dropout
from regard.config import ConfigError
from regard.models.gpt2 import Gpt2, Gpt2Config
from regard.models.interface import Answering, Autoregressive, DecodingState, Observable

CONTEXT = 9


def fresh(**changes: Any) -> Gpt2:
    shape = {"vocab_size": 11, "width": 8, "heads": 2, "ff_width": 12, "layers": 2, "context": CONTEXT}
    return Gpt2Config(**{**shape, **changes}).build()


def make(**changes: Any) -> Gpt2:
    return randomise(fresh(**changes)).eval()


def draw_tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(11, (batch, length))


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("small", 124_439_808), ("medium", 354_823_168), ("large", 774_030_080), ("xl", 1_557_611_200)],
)
def test_presets_have_the_sizes_of_the_published_models(preset, parameters) -> None:
    with torch.device("meta"):
        model = Gpt2Config.preset(preset, vocab_size=50_257).build()
    assert sum(p.numel() for p in model.parameters()) == parameters


@given(sizes, st.integers(2, CONTEXT), seeds, st.data())
def test_future_tokens_do_not_change_past_logits(batch, length, seed, data) -> None:
    torch.manual_seed(seed)
    model, tokens_BT = make(), draw_tokens(batch, length)
    known = data.draw(st.integers(1, length - 1))
    other_BT = torch.cat((tokens_BT[:, :known], draw_tokens(batch, length - known)), dim=1)
    assert_same(model(other_BT)[:, :known], model(tokens_BT)[:, :known])
    assert_same(model(tokens_BT[:, :known]), model(tokens_BT)[:, :known])


def test_each_token_depends_on_past_tokens_and_their_positions() -> None:
    model = make()
    tokens_BT = torch.tensor([[3, 4, 5, 6]])
    before = model.hidden(tokens_BT)
    for changed in range(4):
        other_BT = tokens_BT.clone()
        other_BT[0, changed] = 9
        assert (model.hidden(other_BT) != before).any(-1)[0].tolist() == [t >= changed for t in range(4)]
    assert not torch.equal(model(torch.tensor([[3, 4, 5]]))[0, 2], model(torch.tensor([[4, 3, 5]]))[0, 2])


@given(sizes, st.integers(1, CONTEXT), seeds, st.data())
def test_incremental_decoding_after_any_prefix_gives_the_same_logits(batch, length, seed, data) -> None:
    torch.manual_seed(seed)
    model, tokens_BT = make(), draw_tokens(batch, length)
    begun = data.draw(st.integers(0, length))
    with torch.no_grad():
        whole, state = model(tokens_BT), model.start(tokens_BT[:, :begun])
        assert state.length == begun
        for t in range(begun, length):
            logits, state = model.step(tokens_BT[:, t], state)
            assert_same(logits, whole[:, t])
            assert state.length == t + 1


def test_gradients_flow_through_the_cache() -> None:
    model, tokens_BT = make(), draw_tokens(2, 4)
    logits, _ = model.step(tokens_BT[:, 3], model.start(tokens_BT[:, :3]))
    logits.pow(2).sum().backward()
    in_steps = model.positions.encoding.weight.grad
    model.zero_grad()
    model(tokens_BT)[:, 3].pow(2).sum().backward()
    assert_same(in_steps, model.positions.encoding.weight.grad)


@given(sizes, st.integers(1, CONTEXT), seeds)
def test_logits_do_not_depend_on_the_batch(batch, length, seed) -> None:
    torch.manual_seed(seed)
    model, tokens_BT = make(), draw_tokens(batch, length)
    with torch.no_grad():
        together = model(tokens_BT)
        stepped, _ = model.step(tokens_BT[:, -1], model.start(tokens_BT[:, :-1]))
        for row in range(batch):
            alone = tokens_BT[row : row + 1]
            assert_same(together[row], model(alone)[0])
            assert_same(stepped[row], model.step(alone[:, -1], model.start(alone[:, :-1]))[0][0])


@given(sizes, st.integers(0, 3), seeds, st.data())
def test_the_decoding_state_can_be_reordered(batch, begun, seed, data) -> None:
    torch.manual_seed(seed)
    model, tokens_BT = make(), draw_tokens(batch, begun)
    index_B = torch.tensor(data.draw(st.lists(st.integers(0, batch - 1), min_size=1, max_size=4)))
    first, second = draw_tokens(batch, 1), draw_tokens(len(index_B), 1)
    with torch.no_grad():
        _, state = model.step(first[:, 0], model.start(tokens_BT))
        moved, _ = model.step(second[:, 0], state.reorder(index_B))
        expected = model(torch.cat((tokens_BT[index_B], first[index_B], second), dim=1))[:, -1]
    assert_same(moved, expected)


def test_a_reordered_decoding_state_is_an_independent_copy() -> None:
    model, tokens_BT = make(), draw_tokens(2, 2)
    with torch.no_grad():
        _, state = model.step(torch.tensor([1, 2]), model.start(tokens_BT))
        copy = state.reorder(torch.arange(2))
        for second, branch in ((3, state), (4, copy)):
            _, branch = model.step(torch.tensor([second, 5]), branch)
            logits, _ = model.step(torch.tensor([6, 7]), branch)
            end = torch.tensor([[1, second, 6], [2, 5, 7]])
            assert_same(logits, model(torch.cat((tokens_BT, end), dim=1))[:, -1])


def test_decoding_can_start_from_empty_texts() -> None:
    model = make()
    state = model.start(torch.empty(2, 0, dtype=torch.long))
    assert state.length == 0
    logits, _ = model.step(torch.tensor([3, 4, 3]), state.reorder(torch.tensor([0, 1, 1])))
    assert_same(logits, model(torch.tensor([[3], [4], [3]]))[:, 0])


def test_texts_longer_than_the_context_raise_an_error() -> None:
    model, error = make(), f"{CONTEXT + 1} tokens exceed the context of {CONTEXT}"
    assert model.limit == CONTEXT
    for read in (model, model.hidden, model.start):
        with pytest.raises(ValueError, match=error):
            read(draw_tokens(2, CONTEXT + 1))
    with torch.no_grad():
        state = model.start(draw_tokens(2, CONTEXT - 1))
        _, state = model.step(torch.tensor([1, 2]), state)
        with pytest.raises(ValueError, match=error):
            model.step(torch.tensor([1, 2]), state)


def test_initial_weights_have_the_standard_deviations_of_gpt_2() -> None:
    model = fresh(width=64, ff_width=256, vocab_size=500, context=200, layers=8)
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            assert bool((parameter == 1).all()), name
        elif name.endswith("bias"):
            assert bool((parameter == 0).all()), name
        else:
            added = name.endswith(("attention.out.weight", "feedforward.outer.weight"))
            std = 0.01 if name.startswith("positions") else 0.02 / 4 if added else 0.02  # 4 = √(2 · 8 layers)
            assert parameter.std().item() == pytest.approx(std, rel=0.06), name


def test_the_initial_loss_is_that_of_a_uniform_distribution() -> None:
    with torch.no_grad():
        logits = fresh(width=64, heads=4, ff_width=256, vocab_size=500).eval()(torch.randint(500, (8, CONTEXT)))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.randint(500, (8 * CONTEXT,)))
    assert loss.item() == pytest.approx(torch.tensor(500.0).log().item(), abs=0.1)


def test_every_parameter_gets_a_gradient() -> None:
    model = make().train()
    model(draw_tokens(3, CONTEXT)).pow(2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # a key bias shifts all scores of a query equally, which does not change the softmax
        assert (parameter.grad != 0).any() or name.endswith("key.bias"), name


def test_captured_attention_rows_sum_to_one_and_are_causal() -> None:
    model, tokens_BT = make(), draw_tokens(2, 5)
    with torch.no_grad(), capture(model) as at_once:
        model(tokens_BT)
    with torch.no_grad(), capture(model) as in_steps:
        state = model.start(tokens_BT[:, :2])
        for t in range(2, 5):
            _, state = model.step(tokens_BT[:, t], state)
    assert list(at_once) == list(in_steps) == ["layers.0.attention", "layers.1.attention"]
    for path, weights_BHTS in at_once.items():
        assert weights_BHTS.shape == (2, 2, 5, 5)
        assert_same(weights_BHTS.sum(-1), torch.ones(2, 2, 5, dtype=torch.float64))
        assert bool((weights_BHTS.triu(1) == 0).all())
        assert bool((weights_BHTS.tril() > 0).flatten(2).sum(-1).eq(15).all())
        assert_same(in_steps[path], weights_BHTS)


def test_the_output_layer_is_tied_to_the_embedding() -> None:
    model, tokens_BT = make(), draw_tokens(2, 4)
    weight, bias = model.output_parameters()
    assert weight is model.tokens.weight
    assert bias is None
    assert_same(model(tokens_BT), model.hidden(tokens_BT) @ weight.T)
    outputs = []
    handle = model.layers[-1].register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    whole = model(tokens_BT)
    handle.remove()
    assert_same(model.answer(outputs[0]), whole)


def test_every_module_uses_the_config() -> None:
    model = fresh(dropout=0.25, norm_eps=0.5)
    # one for the embeddings, two per layer
    assert [m.rate for m in model.modules() if isinstance(m, Dropout)] == [0.25] * (1 + 2 * 2)
    assert {m.eps for m in model.modules() if hasattr(m, "eps")} == {0.5}
    one, other = make(), make(activation="relu")
    other.load_state_dict(one.state_dict())
    tokens_BT = draw_tokens(1, 3)
    assert not torch.equal(one(tokens_BT), other(tokens_BT))


def test_the_model_has_the_protocols_of_decoding_and_explanation() -> None:
    model = make()
    for protocol in (Autoregressive, Observable, Answering):
        assert isinstance(model, protocol)
    assert isinstance(model.start(draw_tokens(1, 2)), DecodingState)


def test_invalid_configs_and_tokens_raise_an_error() -> None:
    with pytest.raises(ConfigError, match="width = 9: not divisible by heads = 2"):
        fresh(width=9)
    with pytest.raises(ValueError, match="token ids from 3 to 11 are outside the vocabulary of 11"):
        make()(torch.tensor([[3, 11]]))
