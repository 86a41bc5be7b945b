from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_same, padded, padded_tokens, randomise, seeds, sizes
from regard.blocks.dropout import Dropout
from regard.blocks.norms import BatchNorm, LayerNorm
from regard.config import ConfigError
from regard.models.interface import Autoregressive, DecodingState
from regard.models.transformer import Transformer, TransformerConfig

SHAPE = {"vocab_size": 11, "width": 8, "heads": 2, "ff_width": 12, "encoder_layers": 2, "decoder_layers": 1}
VARIANTS: list[dict[str, Any]] = [
    {"positions": "sinusoidal"},
    {"positions": "fourier", "norm_placement": "post"},
    {"positions": "learned", "activation": "gelu"},
    {"positions": "rotary", "source_vocab_size": 9},
    {"positions": "none", "tied": False},
    {"positions": "sinusoidal", "position_merge": "concatenate", "tied": False},
    {"positions": "learned", "norm": "batch"},
]


def make(**changes: Any) -> Transformer:
    return randomise(TransformerConfig(**{**SHAPE, **changes}).build()).eval()


def variants(function: Any) -> Any:
    return pytest.mark.parametrize("changes", VARIANTS, ids=lambda v: " ".join(map(str, v.values())))(function)


@variants
def test_incremental_decoding_equals_teacher_forcing(changes) -> None:
    model = make(**changes)
    (source, is_padding), target = padded([5, 2, 3], vocab_size=9), torch.randint(1, 11, (3, 6))
    with torch.no_grad():
        whole, state = model(source, target, is_padding), model.start(source, is_padding)
        for t in range(6):
            logits, state = model.step(target[:, t], state)
            assert_same(logits, whole[:, t])


@variants
def test_future_tokens_do_not_change_past_logits(changes) -> None:
    model = make(**changes)
    (source, is_padding), target = padded([5, 2], vocab_size=9), torch.randint(1, 11, (2, 6))
    assert_same(model(source, target[:, :4], is_padding), model(source, target, is_padding)[:, :4])


@variants
def test_logits_do_not_depend_on_padding_and_the_batch(changes) -> None:
    model = make(**changes)
    lengths = [5, 2, 3]
    (source, is_padding), target = padded(lengths, vocab_size=9), torch.randint(1, 11, (3, 4))
    together = model(source, target, is_padding)
    for row, length in enumerate(lengths):
        assert_same(together[row], model(source[row : row + 1, :length], target[row : row + 1])[0])


@variants
def test_a_mask_without_padding_equals_no_mask(changes) -> None:
    model = make(**changes)
    (source, is_padding), target = padded([5, 5], vocab_size=9), torch.randint(1, 11, (2, 4))
    with torch.no_grad():
        assert_same(model(source, target), model(source, target, is_padding))
        steps = [model.step(target[:, 0], model.start(*inputs))[0] for inputs in ((source,), (source, is_padding))]
    assert_same(*steps)


def test_without_padding_the_attention_kernel_gets_no_mask() -> None:
    model, masks = make(), []
    (source, is_padding), target = padded([5, 2], vocab_size=9), torch.randint(1, 11, (2, 4))
    for path in ("encoder.layers.0.attention.attend", "decoder.layers.0.cross.attend"):
        model.get_submodule(path).register_forward_pre_hook(lambda _module, args: masks.append(args[3]))
    model(source, target)
    assert masks == [None, None]
    model(source, target, is_padding)
    assert torch.equal(masks[2], ~is_padding[:, None, None])


@given(st.lists(sizes, min_size=1, max_size=4), st.data())
def test_the_decoding_state_can_be_reordered(lengths, data) -> None:
    torch.manual_seed(data.draw(seeds))
    model, (source, is_padding) = make(), padded(lengths)
    index = torch.tensor(data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=4)))
    first = torch.randint(1, 11, (len(lengths),))
    second = torch.randint(1, 11, (len(index),))
    with torch.no_grad():
        _, state = model.step(first, model.start(source, is_padding))
        moved, _ = model.step(second, state.reorder(index))
        expected = model(source[index], torch.stack((first[index], second), dim=1), is_padding[index])[:, 1]
    assert_same(moved, expected)


def test_a_reordered_decoding_state_can_be_continued_separately() -> None:
    model, (source, is_padding) = make(), padded([4, 2])
    everybody = torch.arange(2)
    with torch.no_grad():
        _, state = model.step(torch.tensor([1, 2]), model.start(source, is_padding))
        copy = state.reorder(everybody)
        for second, branch in ((3, state), (4, copy)):
            _, branch = model.step(torch.tensor([second, 5]), branch)
            logits, _ = model.step(torch.tensor([6, 7]), branch)
            given = torch.tensor([[1, second, 6], [2, 5, 7]])
            assert_same(logits, model(source, given, is_padding)[:, -1])


def test_a_copied_decoding_state_is_not_overwritten() -> None:
    model, (source, is_padding) = make(), padded([4, 2])
    with torch.no_grad():
        _, state = model.step(torch.tensor([1, 2]), model.start(source, is_padding))
        copy = state.reorder(torch.arange(2))
        model.step(torch.tensor([3, 4]), state)
        logits, copy = model.step(torch.tensor([5, 6]), copy)
        model.step(torch.tensor([7, 8]), state)
        logits, _ = model.step(torch.tensor([9, 10]), copy)
    assert_same(logits, model(source, torch.tensor([[1, 5, 9], [2, 6, 10]]), is_padding)[:, -1])


@variants
def test_every_parameter_gets_a_gradient(changes) -> None:
    model = make(**changes).train()
    source, is_padding = padded([5, 2, 4], vocab_size=9)
    model(source, torch.randint(1, 11, (3, 6)), is_padding).pow(2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # a key bias shifts all scores of a query equally, which does not change the softmax
        assert (parameter.grad != 0).any() or name.endswith("key.bias"), name


def test_a_fully_padded_source_gives_no_nan() -> None:
    for changes in VARIANTS:
        logits = make(**changes)(torch.zeros(2, 3, dtype=torch.long), torch.randint(1, 11, (2, 4)))
        assert logits.isfinite().all()


def parameters(**config: Any) -> int:
    with torch.device("meta"):
        model = TransformerConfig.preset(**config).build()
    return sum(parameter.numel() for parameter in model.parameters())


def closed_form(vocabulary: int, width: int, ff_width: int, layers: int, last_norms: int = 0) -> int:
    attention = 4 * (width * width + width)
    feedforward = width * ff_width + ff_width + ff_width * width + width
    norm = 2 * width
    encoder_layer = attention + feedforward + 2 * norm
    decoder_layer = 2 * attention + feedforward + 3 * norm
    return vocabulary * width + layers * (encoder_layer + decoder_layer) + last_norms * norm


@pytest.mark.parametrize(
    ("name", "width", "ff_width", "count", "published"),
    [("base", 512, 2048, 63_082_496, 65e6), ("big", 1024, 4096, 214_245_376, 213e6)],
)
def test_parameter_counts_match_table_3_of_the_paper(name, width, ff_width, count, published) -> None:
    # With the shared vocabulary of "about 37000" tokens, the equations of the paper give 63.1 M, but Table 3 has 65 M;
    # and 214.2 M, but Table 3 has 213 M. No vocabulary gives both: 65 M needs 40,745 tokens, 213 M needs 35,784.
    assert parameters(name=name, vocab_size=37_000) == closed_form(37_000, width, ff_width, layers=6) == count
    assert count == pytest.approx(published, rel=0.03)


def test_parameter_counts_of_the_small_presets() -> None:
    # with pre-norm, encoder and decoder each end with a norm
    assert parameters(name="tiny", vocab_size=37_000) == closed_form(37_000, 128, 256, 4, last_norms=2) == 6_061_568
    assert parameters(name="small", vocab_size=37_000) == closed_form(37_000, 256, 1024, 3, last_norms=2) == 15_002_624


def test_defaults_and_presets_have_the_documented_values() -> None:
    default = TransformerConfig(vocab_size=9)
    shape = (default.width, default.heads, default.ff_width, default.encoder_layers, default.decoder_layers)
    assert shape == (256, 4, 1024, 3, 3)
    assert (default.context, default.activation, default.dropout) == (1024, "relu", 0.1)
    heads = {name: TransformerConfig.preset(name, vocab_size=9).heads for name in TransformerConfig.presets}
    assert heads == {"tiny": 4, "small": 4, "base": 8, "big": 16}
    assert TransformerConfig.preset("big", vocab_size=9).dropout == 0.3


def test_every_module_uses_the_config() -> None:
    model = TransformerConfig(**SHAPE, dropout=0.25, norm="batch", tied=False).build()
    # two for the embeddings, two per encoder layer, three per decoder layer
    assert [m.rate for m in model.modules() if isinstance(m, Dropout)] == [0.25] * (2 + 2 * 2 + 3)
    norms = [type(m).__name__ for m in model.modules() if isinstance(m, LayerNorm | BatchNorm)]
    assert norms == ["BatchNorm"] * (2 * 2 + 3 + 2)
    assert model.output is not None
    assert model.output.bias is None


def test_initial_weights_have_the_expected_scale() -> None:
    model = TransformerConfig.preset("small", vocab_size=500, positions="learned").build()
    assert model.target_embedding.weight.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert model.encoder.positions.encoding.weight.std().item() == pytest.approx(0.02, rel=0.02)
    inner = model.decoder.layers[0].feedforward.inner
    assert inner.weight.abs().max().item() == pytest.approx((6 / (256 + 1024)) ** 0.5, rel=0.001)
    assert (inner.bias == 0).all()


def test_several_tokens_can_be_added_to_the_cache_at_once() -> None:
    model, (source, is_padding) = make(), padded([4, 2])
    target = torch.randint(1, 11, (2, 5))
    with torch.no_grad():
        state = model.start(source, is_padding)
        for piece in target.split([2, 3], dim=1):
            x = model.decoder(model.target_embedding(piece), state.memory.layers, state.memory.allowed, state.caches)
        assert_same(model.logits(x), model(source, target, is_padding)[:, 2:])
        with pytest.raises(ValueError, match="zip"):
            model.decoder(model.target_embedding(piece), state.memory.layers, state.memory.allowed, [None, None])


def test_the_model_runs_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = TransformerConfig(**SHAPE, positions="learned").build()
        logits = model(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 4, dtype=torch.long))
    assert logits.shape == (2, 4, 11)
    assert logits.device.type == "meta"


def test_the_model_has_the_protocols_of_decoding() -> None:
    assert isinstance(make(), Autoregressive)
    assert isinstance(make().start(padded_tokens([2])), DecodingState)


def test_encoder_and_decoder_may_differ_in_depth() -> None:
    model = TransformerConfig(**{**SHAPE, "encoder_layers": 4, "decoder_layers": 2}).build()
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (4, 2)


def test_tied_and_shared_embeddings_are_one_tensor() -> None:
    shared = make()
    assert shared.source_embedding is shared.target_embedding
    assert shared.output is None
    separate = make(source_vocab_size=9, tied=False)
    assert separate.source_embedding.weight.shape == (9, 8)
    assert separate.output is not None
    assert separate.output.weight is not separate.target_embedding.weight


def test_initial_logits_have_a_moderate_scale() -> None:
    for name in ("tiny", "small"):
        model = TransformerConfig.preset(name, vocab_size=1000).build().eval()
        with torch.no_grad():
            logits = model(torch.randint(1, 1000, (4, 10)), torch.randint(1, 1000, (4, 10)))
        assert 0.3 < logits.std() < 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 10, "heads": 4}, "width = 10: not divisible by heads = 4; choose 8 or 12"),
        ({"width": 9, "heads": 3, "positions": "fourier"}, "width = 9: fourier positions come in pairs"),
        ({"width": 9, "heads": 3, "positions": "sinusoidal_split"}, "sinusoidal_split positions come in pairs"),
        ({"position_merge": "concatenate", "positions": "fourier"}, "tied = true: with concatenated positions"),
        (
            {"position_merge": "concatenate", "tied": False, "positions": "rotary"},
            "'rotary' has nothing to concatenate",
        ),
        ({"vocab_size": 0}, "vocab_size = 0: must be at least 1"),
        ({"width": 2, "heads": 4}, "width = 2: not divisible by heads = 4; choose 4"),
        (
            {"width": 6, "heads": 2, "positions": "rotary"},
            'positions = "rotary": rotates pairs, but width / heads = 3 is odd',
        ),
        (
            {"position_merge": "concatenate"},
            "tied = true: with concatenated positions, embeddings have half the model's width",
        ),
        (
            {"position_merge": "concatenate", "tied": False, "positions": "none"},
            "positions = 'none' has nothing to concatenate",
        ),
        (
            {"position_merge": "concatenate", "tied": False, "width": 10},
            "width = 10: half of it is for positions; choose a multiple",
        ),
        ({"width": 9, "heads": 3}, "width = 9: sinusoidal positions come in pairs"),
        ({"context": 0}, "context = 0: must be at least 1"),
        ({"source_vocab_size": 0}, "source_vocab_size = 0: must be at least 1"),
    ],
)
def test_invalid_combinations_raise_an_error(changes, message) -> None:
    with pytest.raises(ConfigError) as error:
        TransformerConfig(**{**SHAPE, **changes})
    assert message in str(error.value)


def test_one_mistake_is_reported_once() -> None:
    with pytest.raises(ConfigError) as error:
        TransformerConfig(**{**SHAPE, "width": 10, "heads": 4, "positions": "rotary"})
    assert len(error.value.problems) == 1


def test_several_invalid_combinations_are_reported_together() -> None:
    with pytest.raises(ConfigError) as error:
        TransformerConfig(**{**SHAPE, "width": 10, "heads": 4, "position_merge": "concatenate", "tied": False})
    assert len(error.value.problems) == 2


def test_sequences_longer_than_the_context_raise_an_error() -> None:
    model = make(positions="learned", context=4)
    with pytest.raises(ValueError, match="5 tokens exceed the context of 4"):
        model(padded_tokens([5]), padded_tokens([2]))
    state = model.start(padded_tokens([3]))
    with torch.no_grad():
        for _ in range(4):
            _, state = model.step(torch.tensor([1]), state)
        with pytest.raises(ValueError, match="5 tokens exceed the context of 4"):
            model.step(torch.tensor([1]), state)
