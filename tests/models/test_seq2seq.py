"""Properties of every sequence-to-sequence model."""

from typing import Any

import pytest
import torch

from helpers import assert_same, padded, padded_tokens, randomise
from regard.blocks.capture import attention_cores, capture
from regard.config import Config, ConfigError
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.interface import Autoregressive, DecodingState
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig

VOCABULARY = {"vocab_size": 11, "source_vocab_size": 9}
CONFIGS: dict[str, Config] = {
    **{
        f"{cell} {attention}": RnnSeq2SeqConfig(
            **VOCABULARY, width=8, cell=cell, attention=attention, encoder_layers=2, decoder_layers=layers
        )
        for cell, attention, layers in (
            ("rnn", "none", 1), ("gru", "additive", 1), ("lstm", "dot", 2), ("gru", "scaled_dot", 2),
            ("gru", "location_aware", 1),
        )
    },
    "one direction": RnnSeq2SeqConfig(vocab_size=11, width=7, bidirectional=False),
    "convolution": ConvSeq2SeqConfig(**VOCABULARY, width=8, encoder_layers=2, decoder_layers=2),
    "wide convolution": ConvSeq2SeqConfig(vocab_size=11, width=8, kernel=5),
}  # fmt: skip
MODELS = pytest.mark.parametrize("name", CONFIGS)
LENGTHS = [5, 2, 3]


def make(name: str) -> Any:
    return randomise(CONFIGS[name].build()).eval()  # type: ignore[attr-defined]


@MODELS
def test_incremental_decoding_with_reorder_equals_teacher_forcing(name) -> None:
    model, index = make(name), torch.tensor([2, 0, 0])
    (source, is_padding), target = padded(LENGTHS, vocab_size=9), torch.randint(1, 11, (3, 6))
    with torch.no_grad():
        whole, state = model(source, target, is_padding), model.start(source, is_padding)
        for t in range(6):
            if t == 3:
                state, target, source = state.reorder(index), target[index], source[index]
                whole = model(source, target, is_padding[index])
            logits, state = model.step(target[:, t], state)
            assert_same(logits, whole[:, t])


@MODELS
def test_logits_do_not_depend_on_padding_and_the_batch(name) -> None:
    model = make(name)
    (source, is_padding), target = padded(LENGTHS, vocab_size=9), torch.randint(1, 11, (3, 4))
    together = model(source, target, is_padding)
    for row, length in enumerate(LENGTHS):
        assert_same(together[row], model(source[row : row + 1, :length], target[row : row + 1])[0])


@MODELS
def test_a_mask_without_padding_equals_no_mask(name) -> None:
    model = make(name)
    (source, is_padding), target = padded([5, 5], vocab_size=9), torch.randint(1, 11, (2, 4))
    with torch.no_grad():
        assert_same(model(source, target), model(source, target, is_padding))
        steps = [model.step(target[:, 0], model.start(*inputs))[0] for inputs in ((source,), (source, is_padding))]
    assert_same(*steps)


@MODELS
def test_future_tokens_do_not_change_past_logits(name) -> None:
    model, (source, is_padding), target = make(name), padded([5, 2], vocab_size=9), torch.randint(1, 11, (2, 6))
    assert_same(model(source, target[:, :4], is_padding), model(source, target, is_padding)[:, :4])


@MODELS
def test_logits_depend_on_the_source_and_every_parameter_gets_a_gradient(name) -> None:
    model, (source, is_padding) = make(name).train(), padded([5, 4], vocab_size=9)
    target = torch.randint(1, 11, (2, 6))
    model(source, target, is_padding).pow(2).sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert (parameter.grad != 0).any() or parameter_name.endswith("key.bias"), parameter_name
    other = source.clone()
    other[:, 0] = 1 + other[:, 0] % 8
    model.eval()
    assert not torch.allclose(model(source, target), model(other, target))


@MODELS
def test_logits_are_the_output_layer_applied_to_hidden_states(name) -> None:
    model, source, target = make(name), padded_tokens([5, 4], vocab_size=9), torch.randint(1, 11, (2, 6))
    assert_same(model(source, target), model.hidden(source, target) @ model.output_parameters()[0].T)
    assert isinstance(model, Autoregressive)
    assert isinstance(model.start(source), DecodingState)


@MODELS
def test_attention_weights_can_be_captured(name) -> None:
    model, (source, is_padding), target = make(name), padded([5, 4], vocab_size=9), torch.randint(1, 11, (2, 6))
    paths = list(attention_cores(model))
    if name == "rnn none":
        assert paths == []
        return
    with capture(model) as maps:
        model(source, target, is_padding)
    for path in paths:
        assert maps[path].shape == (2, 1, 6, 5)
        assert_same(maps[path].sum(-1), torch.ones(2, 1, 6, dtype=torch.float64))
        assert (maps[path][1, :, :, 4] == 0).all()


def test_invalid_combinations_raise_an_error() -> None:
    with pytest.raises(ConfigError, match="width = 7: a bidirectional encoder uses half of it per direction"):
        RnnSeq2SeqConfig(vocab_size=11, width=7)
    with pytest.raises(ConfigError, match="kernel = 4: has no centre; choose an odd size"):
        ConvSeq2SeqConfig(vocab_size=11, kernel=4)
