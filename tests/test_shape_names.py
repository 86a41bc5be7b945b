"""Shape suffixes of local variables, checked while every block and model runs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from regard.blocks import masks
from regard.blocks.attend import attend_explicitly
from regard.blocks.attention import MultiHeadAttention
from regard.blocks.capture import capture
from regard.blocks.convolution import GatedConvolution
from regard.blocks.loss import linear_cross_entropy
from regard.blocks.norms import BatchNorm
from regard.blocks.positions import Positions, Rotary, Sinusoidal
from regard.blocks.recurrent import AttentiveCell, RecurrentEncoder
from regard.blocks.scores import AdditiveScore, DotScore, LocationAwareScore, ScoredAttention
from regard.data.pretraining import PretrainingBatch
from regard.models.bert import BertConfig
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.heads import AnyHead, ClassificationHead, PretrainingHead
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.rnn_tagger import RnnTaggerConfig
from regard.models.transformer import TransformerConfig
from regard.tasks.pretraining import next_loss, word_loss
from shapes import SOURCE, shapes_checked


def transformer(**changes: Any) -> None:
    model = TransformerConfig(
        vocab_size=23, width=12, heads=3, ff_width=17, encoder_layers=1, decoder_layers=2, **changes
    ).build()
    source, target = torch.randint(1, 23, (2, 5)), torch.randint(1, 23, (2, 7))
    with capture(model, heads=[1], rows=[0, 2]):
        model(source, target)
    with torch.no_grad():
        _, state = model.step(target[:, 0], model.start(source))
        model.step(target[:, 1], state.reorder(torch.tensor([1, 0])))


def recurrent(score: Callable[[], nn.Module] | None) -> None:
    encoder = RecurrentEncoder("lstm", 3, 4, bidirectional=True)
    attention = ScoredAttention(score()) if score else None
    cell = AttentiveCell("lstm", 5, 6, memory_width=8, attention=attention, layers=9)
    is_padding = torch.zeros(2, 7, dtype=torch.bool)
    state = cell.start(*encoder(torch.randn(2, 7, 3), is_padding), is_padding)
    _, state = cell(torch.randn(2, 5), state)
    _, state = cell.unroll(torch.randn(2, 10, 5), state)
    state.reorder(torch.tensor([1, 0]))


def convolution() -> None:
    layer = GatedConvolution(4, 3, causal=True)
    layer(torch.randn(2, 5, 4), torch.zeros(2, 5, dtype=torch.bool))
    layer.step(torch.randn(2, 1, 4), layer.begin(2))


def seq2seq(config: Any) -> None:
    model = config.build()
    source, target = torch.randint(1, 23, (2, 5)), torch.randint(1, 23, (2, 7))
    is_padding = torch.arange(5) >= torch.tensor([[5], [3]])
    model(source, target)
    model(source, target, is_padding)
    _, state = model.step(target[:, 0], model.start(source, is_padding))
    model.step(target[:, 1], state.reorder(torch.tensor([1, 0])))


def bert(head: AnyHead) -> None:
    model = BertConfig(vocab_size=23, width=12, heads=3, ff_width=17, layers=2, context=9, head=head).build()
    tokens, segments = torch.randint(1, 23, (2, 5)), torch.zeros(2, 5, dtype=torch.long)
    model(tokens, segments, torch.arange(5) >= torch.tensor([[5], [3]]))
    if isinstance(head, PretrainingHead):
        batch = PretrainingBatch(tokens, segments, tokens, torch.tensor([0, 1]))
        x_BTD = model.hidden(tokens, segments)
        word_loss(model, x_BTD, batch)
        next_loss(model, x_BTD, batch)


RUNS: dict[str, Callable[[], Any]] = {
    "bert": lambda: bert(PretrainingHead()),
    "bert, classifying": lambda: bert(ClassificationHead(labels=("a", "b", "c"))),
    "rnn_tagger": lambda: RnnTaggerConfig(sizes=(23, 7), labels=("a", "b", "c"), width=12).build()(
        torch.randint(1, 7, (2, 5, 2)), torch.arange(5) >= torch.tensor([[5], [3]])
    ),
    "transformer": transformer,
    "transformer, batch norm, post": lambda: transformer(norm="batch", norm_placement="post"),
    "transformer, rotary": lambda: transformer(positions="rotary"),
    "transformer, concatenated": lambda: transformer(position_merge="concatenate", tied=False),
    "recurrent": lambda: seq2seq(RnnSeq2SeqConfig(vocab_size=23, width=12, decoder_layers=2)),
    "recurrent, no attention": lambda: seq2seq(RnnSeq2SeqConfig(vocab_size=23, width=12, attention="none")),
    "convolutional": lambda: seq2seq(ConvSeq2SeqConfig(vocab_size=23, width=12)),
    "loss": lambda: linear_cross_entropy(
        torch.randn(3, 6), torch.randn(9, 6), torch.randn(9), torch.tensor([0, 1, 2]), 0.1
    ),
    "memory of another width": lambda: MultiHeadAttention(8, 2, memory_width=6)(
        torch.randn(3, 4, 8), torch.randn(3, 5, 6)
    ),
    "explicit": lambda: attend_explicitly(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5), torch.randn(2, 3, 6, 5)),
    "dot": lambda: recurrent(lambda: DotScore(6, 8, scaled=True)),
    "additive": lambda: recurrent(lambda: AdditiveScore(6, 8, 10)),
    "location-aware": lambda: recurrent(lambda: LocationAwareScore(6, 8, 10, channels=11, kernel=3)),
    "no attention": lambda: recurrent(None),
    "convolution": convolution,
    "batch norm": lambda: BatchNorm(6, 9)(torch.randn(2, 3, 6)),
    "masks": lambda: masks.padding(torch.zeros(2, 3, dtype=torch.bool)) & masks.causal(2, 3),
    "positions": lambda: Positions(Sinusoidal(4), "concatenate")(torch.randn(2, 3, 6)),
    "rotary": lambda: Rotary(4)(torch.randn(2, 3, 5, 4)),
}


@pytest.mark.parametrize("name", RUNS)
def test_shape_suffixes_match_the_shapes(name) -> None:
    with shapes_checked() as seen:
        RUNS[name]()
    assert seen


def test_a_wrong_shape_suffix_is_detected() -> None:
    lie = "def f(x_BTD, y_BS):\n    return x_BTD\n"
    scope: dict[str, Any] = {}
    exec(compile(lie, f"{SOURCE}/lie.py", "exec"), scope)
    for x, y, message in (
        (torch.zeros(2, 3), torch.zeros(2, 4), r"x_BTD is \(2, 3\)"),
        (torch.zeros(2, 3, 6), torch.zeros(3, 4), r"y_BS is \(3, 4\), but B is 2"),
    ):
        with pytest.raises(AssertionError, match=message), shapes_checked():
            scope["f"](x, y)


@pytest.mark.parametrize("shape", [(2, 48), (2, 4, 16)])
def test_a_digit_in_a_suffix_is_a_dimension_of_that_size(shape) -> None:
    scope: dict[str, Any] = {}
    exec(compile("def f(made_B3D):\n    return made_B3D\n", f"{SOURCE}/lie.py", "exec"), scope)
    with pytest.raises(AssertionError, match="made_B3D is"), shapes_checked():
        scope["f"](torch.zeros(shape))
    with shapes_checked() as seen:
        scope["f"](torch.zeros(2, 3, 16))
    assert seen == {"made_B3D"}
