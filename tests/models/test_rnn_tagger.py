from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from helpers import assert_same, padded_tokens, randomise, seeds
from regard.blocks.recurrent import KERNELS
from regard.config import ConfigError, parse
from regard.explain.walk import parts
from regard.models.interface import Observable
from regard.models.rnn_tagger import UNKNOWN, RnnTagger, RnnTaggerConfig

LABELS = ("NOUN", "VERB", "ADJ", "ADP")
SIZES = (11, 7, 4)
KINDS = pytest.mark.parametrize(
    ("cell", "bidirectional", "layers"), [("rnn", False, 1), ("rnn", True, 2), ("gru", True, 1), ("lstm", True, 2)]
)


def make(**changes: Any) -> RnnTagger:
    small = {"sizes": SIZES, "labels": LABELS, "word_width": 5, "feature_width": 3, "width": 6}
    return randomise(RnnTaggerConfig(**{**small, **changes}).build()).eval()


def random_features(lengths: list[int]) -> Tensor:
    return torch.stack([padded_tokens(lengths, size) for size in SIZES], dim=2)


def mask(lengths: list[int], length: int) -> Tensor:
    return torch.arange(length) >= torch.tensor(lengths)[:, None]


@KINDS
@settings(max_examples=12)
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4), more=st.integers(0, 3), seed=seeds)
def test_logits_do_not_depend_on_padding_and_the_batch(cell, bidirectional, layers, lengths, more, seed) -> None:
    torch.manual_seed(seed)
    model = make(cell=cell, bidirectional=bidirectional, layers=layers)
    features, order = random_features(lengths), torch.randperm(len(lengths))
    is_padding = mask(lengths, max(lengths) + more)
    together = model(F.pad(features, (0, 0, 0, more), value=2), is_padding)
    assert together.shape == (len(lengths), max(lengths) + more, len(LABELS))
    assert_same(model(features[order], is_padding[order, : max(lengths)]), together[order, : max(lengths)])
    for row, length in enumerate(lengths):
        assert_same(model(features[row : row + 1, :length])[0], together[row, :length])


@KINDS
def test_only_a_bidirectional_encoder_sees_future_words(cell, bidirectional, layers) -> None:
    model, features = make(cell=cell, bidirectional=bidirectional, layers=layers), random_features([6, 6])
    changed = features.clone()
    changed[:, 4] = changed[:, 4] % 3 + 1
    before, after = model(features), model(changed)
    assert torch.equal(before[:, :4], after[:, :4]) is not bidirectional
    assert not torch.isclose(before[:, 4:], after[:, 4:]).all(-1).any()


def test_a_tanh_tagger_equals_the_equations_of_the_lecture() -> None:
    model, features = make(cell="rnn", bidirectional=False), random_features([5])
    weights = model.encoder.kernel.state_dict()
    u, v, b = weights["weight_ih_l0"], weights["weight_hh_l0"], weights["bias_ih_l0"] + weights["bias_hh_l0"]
    h = torch.zeros(6, dtype=torch.float64)
    for word, logits in zip(features[0], model(features)[0], strict=True):
        x = torch.cat([table.weight[i] * table.width**0.5 for table, i in zip(model.embeddings, word, strict=True)])
        h = torch.tanh(u @ x + v @ h + b)
        assert_same(logits, model.output.weight @ h + model.output.bias)


@KINDS
def test_the_encoder_has_the_configured_cell_layers_and_dropout(cell, bidirectional, layers) -> None:
    kernel = make(cell=cell, bidirectional=bidirectional, layers=layers, dropout=0.25).encoder.kernel
    assert isinstance(kernel, KERNELS[cell])
    assert (kernel.num_layers, kernel.bidirectional) == (layers, bidirectional)
    assert kernel.dropout == (0.25 if layers > 1 else 0)


def accuracy_after_training(model: RnnTagger, words: Tensor, tags: Tensor) -> float:
    """Trains on all but the last hundred sentences; returns the accuracy on the words of these."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    model.train()
    for step in range(50):  # twice as many as necessary
        rows = torch.arange(32 * step, 32 * (step + 1)) % (len(words) - 100)
        loss = F.cross_entropy(model(words[rows, :, None]).flatten(0, 1), tags[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return float((model(words[-100:, :, None]).argmax(-1) == tags[-100:]).double().mean())


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_tags_that_depend_on_neighbouring_words_are_learned(cell) -> None:
    words = torch.randint(2, 8, (1000, 9))
    is_odd = F.pad(words % 2, (1, 1))
    left, right = is_odd[:, :-2], is_odd[:, 2:]

    def model(bidirectional: bool) -> RnnTagger:
        config = RnnTaggerConfig(
            sizes=(8,), labels=LABELS, cell=cell, bidirectional=bidirectional, word_width=16, width=32,
            dropout=0.0, word_dropout=0.0,
        )  # fmt: skip
        return config.build()

    assert accuracy_after_training(model(bidirectional=False), words, left) == 1
    assert accuracy_after_training(model(bidirectional=True), words, left + 2 * right) == 1
    # the last word has no right neighbour; for all others the model can only guess
    assert accuracy_after_training(model(bidirectional=False), words, right) < 0.7


def test_word_dropout_has_the_configured_rate_only_in_training() -> None:
    model, seen = make(word_dropout=0.25, dropout=0.0).train(), []
    model.embeddings[0].register_forward_hook(lambda _module, args, _output: seen.append(args[0]))
    model.embeddings[1].register_forward_hook(lambda _module, args, _output: seen.append(args[0]))
    features = torch.full((40, 50, 3), 3)
    model(features)
    words, endings = seen
    assert ((words == UNKNOWN) | (words == 3)).all()
    # 2,000 words: ±5 standard deviations
    assert (words == UNKNOWN).double().mean() == pytest.approx(0.25, abs=0.05)
    assert torch.equal(endings, features[:, :, 1])
    model.eval()(features)
    assert torch.equal(seen[2], features[:, :, 0])


def test_dropout_applies_only_in_training_and_every_parameter_gets_a_gradient() -> None:
    model, features = make(word_dropout=0.0, dropout=0.5), random_features([6, 4])
    assert torch.equal(model(features), model(features))
    model.train()
    logits = model(features)
    assert not torch.equal(logits, model(features))
    logits.pow(2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


def test_the_tagger_is_observable_and_has_no_maximum_length() -> None:
    model = make()
    assert isinstance(model, Observable)
    assert [part.path for part in parts(model)] == [*(f"embeddings.{i}" for i in range(3)), "encoder"]
    assert model.limit is None
    assert model(random_features([2000])).shape == (1, 2000, 4)


def test_a_config_is_parsed() -> None:
    config = RnnTaggerConfig(sizes=SIZES, labels=LABELS, cell="gru")
    data = {"sizes": [11, 7, 4], "labels": list(LABELS), "cell": "gru"}
    assert parse(RnnTaggerConfig, data) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": ()}, "sizes"),
        ({"sizes": (11, 1)}, "padding and unknown take two ids"),
        ({"labels": ("NOUN",)}, "labels"),
        ({"labels": ("NOUN", "VERB", "NOUN")}, "duplicate label"),
        ({"width": 7}, "width = 7: a bidirectional encoder uses half of it per direction"),
    ],
)
def test_invalid_configs_raise_an_error(change, message) -> None:
    with pytest.raises(ConfigError, match=message):
        RnnTaggerConfig(**{"sizes": SIZES, "labels": LABELS, **change})
    assert RnnTaggerConfig(sizes=SIZES, labels=LABELS, width=7, bidirectional=False).width == 7


def test_invalid_input_raises_an_error() -> None:
    with pytest.raises(ValueError, match=r"features should have shape \(batch, length, 3\), got \(2, 5, 2\)"):
        make()(random_features([5, 3])[:, :, :2])
    with pytest.raises(ValueError, match="sentence 1 of the batch is empty"):
        make()(random_features([5, 5]), mask([5, 0], 5))
    with pytest.raises(ValueError, match="are outside the vocabulary of 7"):
        make()(torch.full((1, 2, 3), 8))
