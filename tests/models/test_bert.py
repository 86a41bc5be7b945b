import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_same, padded, randomise, seeds
from regard.blocks.capture import capture
from regard.config import ConfigError
from regard.models.bert import Bert, BertConfig
from regard.models.heads import (
    AnyHead,
    ClassificationHead,
    NoHead,
    PretrainingHead,
    RegressionHead,
    SpanHead,
    TaggingHead,
)

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


def small(head: AnyHead | None = None, **changes) -> Bert:
    shape = {"vocab_size": 11, "width": 8, "heads": 2, "ff_width": 12, "layers": 2, "context": 16, **changes}
    return BertConfig(**shape, head=head or PretrainingHead()).build()


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("tiny", 4_385_920), ("mini", 11_170_560), ("small", 28_763_648), ("base", 109_482_240), ("large", 335_141_888)],
)
def test_presets_have_the_sizes_of_the_published_models(preset, parameters) -> None:
    with torch.device("meta"):
        model = BertConfig.preset(preset, vocab_size=30522, head={"kind": "none"}).build()
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("name", HEADS)
def test_each_head_has_its_output_shape(name) -> None:
    head, shape = HEADS[name]
    model = small(head)
    assert model(torch.randint(1, 11, (3, 5)), torch.zeros(3, 5, dtype=torch.long)).shape == (3, *shape)
    assert (model.pooler is not None) == head.pooled


@pytest.mark.parametrize("name", HEADS)
def test_the_task_and_labels_of_a_model_are_those_of_its_head(name) -> None:
    config = small(HEADS[name][0]).config
    tasks = {"words and next": "pretraining", "words": "pretraining", "regression": "classification"}
    expected = tasks.get(name, name if name in ("classification", "tagging") else "embedding")
    assert config.task == config.head.task == expected
    assert config.labels == {"classification": ("a", "b", "c"), "tagging": ("a", "b")}.get(name, ())


def test_tensors_of_heads_have_stable_names() -> None:
    names = {
        name: {key for key in small(head).state_dict() if key.startswith(("head.", "pooler."))}
        for name, (head, _) in HEADS.items()
    }
    words = {"head.bias", *(f"head.{part}.{kind}" for part in ("dense", "norm") for kind in ("weight", "bias"))}
    pooler, linear = {"pooler.weight", "pooler.bias"}, {"head.1.weight", "head.1.bias"}
    assert names == {
        "none": pooler, "none, not pooled": set(),
        "words and next": words | pooler | {"head.next.weight", "head.next.bias"}, "words": words,
        "classification": linear | pooler, "regression": linear | pooler, "tagging": linear, "span": linear,
    }  # fmt: skip


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


def test_a_mask_without_padding_equals_no_mask() -> None:
    torch.manual_seed(1)
    model, masks = randomise(small()).eval(), []
    model.layers[0].attention.attend.register_forward_pre_hook(lambda _module, args: masks.append(args[3]))
    tokens_BT, is_padding_BT = padded([5, 5])
    segments_BT = torch.zeros_like(tokens_BT)
    assert_same(model(tokens_BT, segments_BT), model(tokens_BT, segments_BT, is_padding_BT))
    assert masks[0] is None
    assert masks[1] is not None


def test_every_token_attends_to_every_other() -> None:
    torch.manual_seed(1)
    model = randomise(small()).eval()
    tokens_BT, segments_BT = torch.tensor([[3, 4, 5, 6]]), torch.zeros(1, 4, dtype=torch.long)
    before = model.hidden(tokens_BT, segments_BT)
    for changed in range(4):
        other_BT = tokens_BT.clone()
        other_BT[0, changed] = 9
        assert bool((model.hidden(other_BT, segments_BT) != before).any(-1).all())
    with capture(model) as maps:
        model(tokens_BT, segments_BT)
    assert list(maps) == ["layers.0.attention", "layers.1.attention"]


def test_logits_depend_on_segments_and_positions() -> None:
    torch.manual_seed(1)
    model = randomise(small()).eval()
    tokens_BT, one, other = torch.tensor([[3, 4]]), torch.tensor([[0, 0]]), torch.tensor([[0, 1]])
    assert not torch.equal(model(tokens_BT, one), model(tokens_BT, other))
    assert not torch.equal(model(tokens_BT, one)[0, 0], model(tokens_BT.flip(1), one)[0, 1])


def test_states_are_the_outputs_of_the_embedding_and_each_layer() -> None:
    torch.manual_seed(1)
    model = randomise(small()).eval()
    inputs = torch.tensor([[3, 4, 5]]), torch.tensor([[0, 0, 1]])
    states = model.states(*inputs)
    assert len(states) == 3
    assert_same(states[-1], model.hidden(*inputs))
    embedded = model.tokens.weight[inputs[0]] + model.segments.weight[inputs[1]] + model.positions.encoding.weight[:3]
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


def test_invalid_configs_and_long_texts_raise_an_error() -> None:
    with pytest.raises(ConfigError, match="width = 9: not divisible by heads = 2"):
        small(width=9)
    with pytest.raises(ConfigError, match="vocab_size = 0: must be at least 1"):
        small(vocab_size=0)
    with pytest.raises(ConfigError, match="labels"):
        ClassificationHead(labels=("only",))
    with pytest.raises(ValueError, match="17 tokens exceed the context of 16"):
        small()(torch.ones(1, 17, dtype=torch.long), torch.zeros(1, 17, dtype=torch.long))
