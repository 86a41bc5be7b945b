import pytest
import torch

from helpers import assert_same, padded_tokens, randomise
from regard.blocks.capture import capture
from regard.explain.alignment import Alignment, by_words, token_weights
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.transformer import TransformerConfig

MODELS = {
    "transformer": TransformerConfig.preset("tiny", vocab_size=9, width=8, heads=2, ff_width=8),
    "rnn": RnnSeq2SeqConfig(vocab_size=9, width=8),
    "conv": ConvSeq2SeqConfig(vocab_size=9, width=8),
}


def make(name: str) -> torch.nn.Module:
    return randomise(MODELS[name].build()).eval()


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_the_mean_over_all_layers_and_heads_that_look_at_the_source(name) -> None:
    model, source, target = make(name), padded_tokens([5, 3], 9), padded_tokens([4, 4], 9)
    weights = token_weights(model, source, target)
    with capture(model) as maps:
        model(source, target)
    every = [w for path, w in maps.items() if w.shape[2:] == (4, 5)]
    assert len(every) == {"transformer": 4, "rnn": 1, "conv": 3}[name]
    assert_same(weights, sum(w.mean(1) for w in every) / len(every))
    assert_same(weights.sum(2), torch.ones(2, 4, dtype=torch.float64))
    assert (weights[1, :, 3:] == 0).all()


def test_tokens_are_put_together_to_words() -> None:
    tokens = torch.tensor([[0.5, 0.1, 0.3, 0.1], [0.1, 0.1, 0.6, 0.2], [0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    # source: two tokens of word 0, one of word 1, then the end; target: both tokens of word 0, then one of none
    words = by_words(tokens, [0, 0, -1], [0, 0, 1])
    assert_same(words, torch.tensor([[(0.6 + 0.2) / 2, (0.3 + 0.6) / 2]], dtype=torch.float64))


def test_links_are_written_source_first() -> None:
    alignment = Alignment(
        ("the", "red", "house"), ("la", "casa", "roja"), ((0.7, 0.2, 0.1), (0, 0.1, 0.9), (0, 0.9, 0))
    )
    assert alignment.links() == ((0, 0), (2, 1), (1, 2))
    assert alignment.pharaoh() == "0-0 2-1 1-2"
    assert Alignment((), ("x",), ((),)).pharaoh() == ""


def test_a_model_without_attention_says_so() -> None:
    model = RnnSeq2SeqConfig(vocab_size=9, width=8, attention="none").build()
    with pytest.raises(ValueError, match="no attention matches 'decoder.attention'; this model has none"):
        token_weights(model, padded_tokens([3], 9), padded_tokens([3], 9))
