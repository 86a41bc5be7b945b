import pytest
import torch

from helpers import assert_same
from regard.explain.positions import encodings, own_kind, own_width, similarity
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from traces import read


@pytest.mark.parametrize(
    ("name", "kind", "width"),
    [
        ("transformer", "sinusoidal", 8),
        ("transformer, rotary", "rotary", 4),
        ("transformer, positions beside", "learned", 4),
        ("conv", "learned", 8),
    ],
)
def test_positions_have_the_kind_and_width_of_the_model(name, kind, width) -> None:
    model = read(name).model
    assert (own_kind(model), own_width(model)) == (kind, width)
    assert encodings(model, 6).shape == (6, width)
    for other in ("sinusoidal", "fourier", "rotary"):
        assert encodings(model, 6, other).shape == (6, width)


def test_positions_equal_those_that_the_model_adds() -> None:
    model = read("transformer").model
    x = torch.zeros(1, 5, 8, dtype=torch.float64)
    assert_same(encodings(model, 5), model.encoder.positions(x)[0])
    assert_same(encodings(model, 5, "sinusoidal"), encodings(model, 5))


def test_learned_positions_are_not_extended_beyond_the_context() -> None:
    model = read("conv").model
    assert len(encodings(model, 5000)) == 1024


def test_the_similarity_of_sinusoids_is_the_mean_cosine_of_their_angles() -> None:
    model = read("transformer").model
    frequencies = torch.tensor([10000.0 ** (-2 * k / 8) for k in range(4)], dtype=torch.float64)
    expected = torch.stack([(frequencies * distance).cos().mean() for distance in range(20)])
    assert_same(similarity(encodings(model, 20)), expected)


def test_models_without_positions_raise_an_error() -> None:
    model = RnnSeq2SeqConfig(vocab_size=9, width=8).build()
    assert own_kind(model) == "none"
    with pytest.raises(ValueError, match="no positional encoding"):
        encodings(model, 5)
    with pytest.raises(ValueError, match="choose from own, sinusoidal"):
        encodings(model, 5, "relative")
