"""Traces of a model of each kind on the same two sentences."""

import torch

from helpers import randomise
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Trace
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.transformer import TransformerConfig

SMALL = {"vocab_size": 9, "width": 8, "heads": 2, "ff_width": 12, "encoder_layers": 2, "decoder_layers": 2}
MODELS = {
    "transformer": TransformerConfig(**SMALL, norm_placement="post"),
    "transformer, norm before": TransformerConfig(**SMALL, source_vocab_size=8, activation="gelu"),
    "transformer, rotary": TransformerConfig(**SMALL, positions="rotary"),
    "transformer, positions beside": TransformerConfig(
        **SMALL, positions="learned", position_merge="concatenate", tied=False, norm="batch"
    ),
    "rnn": RnnSeq2SeqConfig(vocab_size=9, width=8),
    "rnn, scaled dot": RnnSeq2SeqConfig(vocab_size=9, width=8, attention="scaled_dot", cell="lstm", decoder_layers=2),
    "rnn, location": RnnSeq2SeqConfig(vocab_size=9, width=8, attention="location_aware", cell="rnn"),
    "conv": ConvSeq2SeqConfig(vocab_size=9, width=8, encoder_layers=2, decoder_layers=2),
}


def read(name: str) -> Trace:
    torch.manual_seed(1)
    model = randomise(MODELS[name].build()).eval()
    streams = {
        "source": text_stream((3, 4, 5, 6, 2), "abcd.", TextLayout((0, 0, 1, 2, -1), ("ab", "c", "d"))),
        "target": text_stream((1, 7, 8, 3), ".xyz", TextLayout((-1, 0, 0, 1), ("xy", "z"))),
    }
    inputs = tuple(torch.tensor([stream.tokens]) for stream in streams.values())
    target = text_stream((7, 8, 3, 2), "xyz.", TextLayout((0, 0, 1, -1), ("xy", "z")))
    return Trace(model, inputs, streams, "target", target, (7, 8, 3), lambda tokens: [str(token) for token in tokens])
