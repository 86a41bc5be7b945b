import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_same, padded, random_model, randomise, seeds
from regard.blocks.capture import capture, intervene
from regard.config import ConfigError
from regard.models.bert import BertConfig
from regard.models.heads import (
    AnyHead,
    ClassificationHead,
    NoHead,
    PretrainingHead,
    RegressionHead,
    SpanHead,
    TaggingHead,
)
from regard.models.roformer import RoFormer, RoFormerConfig

HEADS: dict[str, tuple[AnyHead, tuple[int, ...]]] = {
    "none": (NoHead(), (5, 8)),
    "none, not pooled": (NoHead(pooled=False), (5, 8)),
    "words and next": (PretrainingHead(), (5, 11)),
    "words": (PretrainingHead(pooled=False), (5, 11)),
    "classification": (ClassificationHead(labels=("a", "b", "c")), (1, 3)),
    "regression": (RegressionHead(), (1, 1)),
    "tagging": (TaggingHead(labels=("a", "b")), (5, 2)),
    "span": (SpanHead(), (5, 2)),
}


def small(head: AnyHead | None = None, **changes) -> RoFormer:
    shape = {"vocab_size": 11, "width": 8, "heads": 2, "ff_width": 12, "layers": 2, **changes}
    return RoFormerConfig(**shape, head=head or PretrainingHead()).build()


def zeros(tokens_BT: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tokens_BT)


@pytest.mark.parametrize("preset", RoFormerConfig.presets)
def test_presets_equal_those_of_bert_without_position_embeddings(preset) -> None:
    about = {"vocab_size": 30522, "head": {"kind": "none"}}
    with torch.device("meta"):
        models = RoFormerConfig.preset(preset, **about).build(), BertConfig.preset(preset, **about, context=512).build()
    ours, bert = ({name: x.shape for name, x in model.named_parameters()} for model in models)
    assert bert.pop("positions.encoding.weight") == (512, models[1].config.width)
    assert ours == bert


@pytest.mark.parametrize("name", HEADS)
def test_each_head_has_its_output_shape_task_and_labels(name) -> None:
    head, shape = HEADS[name]
    model, tokens_BT = small(head), torch.randint(1, 11, (3, 5))
    assert model(tokens_BT, zeros(tokens_BT)).shape == (3, *shape)
    assert (model.pooler is not None) == head.pooled
    assert model.config.task == head.task
    assert model.config.labels == head.labels


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), seeds)
def test_logits_do_not_depend_on_padding_and_the_batch(lengths, seed) -> None:
    torch.manual_seed(seed)
    model = randomise(small()).eval()
    tokens_BT, is_padding_BT = padded(lengths)
    segments_BT = (torch.arange(tokens_BT.size(1)) > 2).long().expand_as(tokens_BT)
    together = model(tokens_BT, segments_BT, is_padding_BT)
    for i, length in enumerate(lengths):
        alone = model(tokens_BT[i : i + 1, :length], segments_BT[i : i + 1, :length])
        assert_same(together[i, :length], alone[0])


@given(st.integers(1, 6), st.integers(1, 40), seeds)
def test_logits_depend_on_relative_positions_only(length, shift, seed) -> None:
    torch.manual_seed(seed)
    model = random_model(small())
    tokens_BT = torch.randint(11, (2, length))
    later_BT = torch.cat((torch.randint(11, (2, shift)), tokens_BT), dim=1)
    is_before_BT = (torch.arange(shift + length) < shift).expand_as(later_BT)
    with capture(model) as maps:
        expected = model(tokens_BT, zeros(tokens_BT))
    with capture(model) as later_maps:
        found = model(later_BT, zeros(later_BT), is_before_BT)
    # the angles differ by at most 40 radians, which costs at most two digits of float64
    assert_same(found[:, shift:], expected, 1e-10)
    for path, weights_BHTS in maps.items():
        assert_same(later_maps[path][:, :, shift:, shift:], weights_BHTS, 1e-10)


def test_attention_scores_equal_complex_rotation_by_the_distance() -> None:
    torch.manual_seed(1)
    model = random_model(small(layers=1, width=12, heads=2))
    tokens_BT = torch.randint(11, (1, 7))
    x_BTD = model.states(tokens_BT, zeros(tokens_BT))[0]
    attention = model.layers[0].attention
    query, key = (
        torch.view_as_complex(linear(x_BTD).unflatten(2, (2, 3, 2)).transpose(1, 2).contiguous())
        for linear in (attention.query, attention.key)
    )
    places, frequencies = torch.arange(7).double(), 10000 ** (-torch.arange(3).double() / 3)
    angles = (places[:, None] - places)[..., None] * frequencies
    scores = torch.einsum("bhtk,bhsk,tsk->bhts", query, key.conj(), torch.polar(torch.ones_like(angles), angles)).real
    with capture(model) as maps:
        model(tokens_BT, zeros(tokens_BT))
    assert_same(maps["layers.0.attention"], (scores / 6**0.5).softmax(-1))


def test_logits_depend_on_the_order_of_tokens() -> None:
    torch.manual_seed(1)
    model = random_model(small())
    tokens_BT = torch.tensor([[3, 4, 5]])
    ahead, back = model(tokens_BT, zeros(tokens_BT)), model(tokens_BT.flip(1), zeros(tokens_BT)).flip(1)
    assert not torch.allclose(ahead, back)
    with intervene(model, drop_positions="*"):
        ahead, back = model(tokens_BT, zeros(tokens_BT)), model(tokens_BT.flip(1), zeros(tokens_BT)).flip(1)
    assert_same(ahead, back)


def test_logits_depend_on_segments() -> None:
    torch.manual_seed(1)
    model, tokens_BT = random_model(small()), torch.tensor([[3, 4]])
    assert not torch.equal(model(tokens_BT, zeros(tokens_BT)), model(tokens_BT, torch.tensor([[0, 1]])))


def test_texts_may_have_any_length() -> None:
    torch.manual_seed(1)
    model = random_model(small())
    assert model.limit is None
    tokens_BT = torch.randint(11, (1, 1700))
    assert bool(model(tokens_BT, zeros(tokens_BT)).isfinite().all())


def test_states_are_the_outputs_of_the_embedding_and_each_layer() -> None:
    torch.manual_seed(1)
    model = randomise(small()).eval()
    inputs = torch.tensor([[3, 4, 5]]), torch.tensor([[0, 0, 1]])
    states = model.states(*inputs)
    assert len(states) == 3
    assert_same(states[-1], model.hidden(*inputs))
    embedded = model.tokens.weight[inputs[0]] + model.segments.weight[inputs[1]]
    assert_same(states[0], torch.nn.functional.layer_norm(embedded, (8,), model.norm.weight, model.norm.bias, 1e-12))


def test_initial_weights_are_small_and_biases_are_zero() -> None:
    torch.manual_seed(1)
    model = small(width=64, ff_width=256, vocab_size=500)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            assert 0.015 < float(parameter.detach().std()) < 0.025, name
        elif "norm.weight" in name:
            assert bool((parameter == 1).all()), name
        else:
            assert bool((parameter == 0).all()), name


@pytest.mark.parametrize("width", [9, 10])
def test_an_odd_head_width_raises_an_error(width) -> None:
    with pytest.raises(ConfigError, match=f"width = {width}: not divisible by 2 × heads = 4; each head rotates pairs"):
        small(width=width)
