import pytest
import torch

from helpers import assert_same
from regard.data import sequences
from regard.models.heads import NoHead
from regard.tasks.embedding import Embedder
from texts import TEXTS, TOKENIZER, bert

ENCODER = Embedder(bert(NoHead()), TOKENIZER)


def states(text: str) -> list[torch.Tensor]:
    (encoded,) = sequences.encode(TOKENIZER, [text], max_length=24)
    with torch.no_grad():
        return [x[0] for x in ENCODER.model.states(*sequences.text_batch(TOKENIZER, [encoded]).inputs)]


def test_vectors_do_not_depend_on_the_batch() -> None:
    together = ENCODER.embed([*TEXTS, ""], batch_tokens=40)
    for text, vector in zip([*TEXTS, ""], together, strict=True):
        assert_same(vector, states(text)[-1].mean(0))


def test_cls_and_max_pooling_and_normalisation() -> None:
    text = TEXTS[0]
    last = states(text)[-1]
    others = [text, TEXTS[1]]  # so that there is padding
    assert_same(ENCODER.embed(others, pool="cls")[0], last[0])
    assert_same(ENCODER.embed(others, pool="max")[0], last.amax(0))
    assert_same(ENCODER.embed(others, normalise=True).norm(dim=1), torch.ones(2, dtype=torch.float64))


def test_layers_are_joined_by_mean_sum_or_concatenation() -> None:
    zero, one, two = states(TEXTS[0])
    assert_same(ENCODER.embed([TEXTS[0]], layers=[0])[0], zero.mean(0))
    assert_same(ENCODER.embed([TEXTS[0]], layers=[-2, -1], join="sum")[0], (one + two).mean(0))
    assert_same(ENCODER.embed([TEXTS[0]], layers=[-2, -1])[0], (one + two).mean(0) / 2)
    both = ENCODER.embed([TEXTS[0]], layers=[1, 2], join="concatenate")[0]
    assert_same(both, torch.cat((one, two), dim=1).mean(0))
    for layers in ([3], [-4], []):
        with pytest.raises(ValueError, match="layers must be from 0 to 2, or from -1 to -3 from the end"):
            ENCODER.embed(["x"], layers=layers)


def test_a_text_of_ten_thousand_words_is_truncated() -> None:
    long = " ".join(["dog"] * 10_000)
    assert ENCODER.encode([long])[0].is_truncated
    assert_same(ENCODER.embed([long])[0], states(long)[-1].mean(0))


def test_a_trace_shows_the_words_of_both_texts() -> None:
    trace = ENCODER.trace("the brown dog [SEP] good food")
    assert trace.streams["text"].layout.spelled == ("the", "brown", "dog", "good", "food")
    assert trace.inputs[1].sum() > 0
    view = ENCODER.look("the brown dog")
    assert view.rows == ("the", "brown", "dog")
    assert "brown" in str(view)
