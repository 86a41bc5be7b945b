from dataclasses import replace

import pytest
import torch

from helpers import assert_same
from regard.blocks.capture import capture
from regard.explain.alignment import Alignment, align
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from traces import read

MODELS = {"transformer": 2, "rnn": 1, "conv": 2}  # cross-attention layers


@pytest.mark.parametrize("name", MODELS)
def test_an_alignment_is_the_mean_over_all_layers_and_heads_of_the_cross_attention(name) -> None:
    trace = read(name)
    with capture(trace.model) as maps:
        trace.run()
    every = [w[0] for path, w in maps.items() if w.shape[2:] == (4, 5)]
    assert len(every) == MODELS[name]
    mean = sum(w.mean(0) for w in every) / len(every)
    found = align(trace)
    assert (found.source, found.target) == (("ab", "c", "d"), ("xy", "z"))
    expected = [[(mean[0, 0] + mean[0, 1] + mean[1, 0] + mean[1, 1]) / 2, mean[:2, 2].mean(), mean[:2, 3].mean()]]
    expected += [[mean[2, :2].sum(), mean[2, 2], mean[2, 3]]]
    assert_same(torch.tensor(found.weights, dtype=torch.float64), torch.tensor(expected, dtype=torch.float64))


def test_pharaoh_links_are_written_source_first() -> None:
    alignment = Alignment(
        ("the", "red", "house"), ("la", "casa", "roja"), ((0.7, 0.2, 0.1), (0, 0.1, 0.9), (0, 0.9, 0))
    )
    assert alignment.links() == ((0, 0), (2, 1), (1, 2))
    assert alignment.pharaoh() == "0-0 2-1 1-2"
    assert Alignment((), ("x",), ((),)).pharaoh() == ""


def test_a_model_without_attention_cannot_be_aligned() -> None:
    model = RnnSeq2SeqConfig(vocab_size=9, width=8, attention="none").build()
    with pytest.raises(ValueError, match="this model has no attention layers"):
        align(replace(read("rnn"), model=model))
