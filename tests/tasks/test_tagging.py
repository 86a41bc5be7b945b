import numpy as np
import pytest
import torch
from torch.nn import functional as F

from helpers import assert_same, randomise
from regard.codecs.words import Words
from regard.data.batches import IGNORED
from regard.data.conllu import Sentence
from regard.data.tagged import TaggedPieces, TaggedWords
from regard.models.heads import TaggingHead
from regard.models.rnn_tagger import RnnTaggerConfig
from regard.tasks.tagging import PieceTagger, WordTagger, loss, words
from texts import TEXTS, TOKENIZER, bert

SENTENCES = [text.split() for text in TEXTS]
WORDS = Words.learn(SENTENCES, min_count=1)
PIECES = PieceTagger(bert(TaggingHead(labels=("N", "V", "X"))), TOKENIZER)
WHOLE = WordTagger(
    randomise(RnnTaggerConfig(sizes=WORDS.sizes()["sizes"], labels=("N", "V", "X"), width=8).build()), WORDS
)


@pytest.mark.parametrize("tagger", [PIECES, WHOLE], ids=["bert", "rnn"])
def test_tags_do_not_depend_on_the_batch(tagger) -> None:
    together = tagger.tag([*SENTENCES, []], batch_tokens=30)
    for sentence, tags in zip([*SENTENCES, []], together, strict=True):
        assert len(tags) == len(sentence)
        assert set(tags) <= {"N", "V", "X"}
        assert tagger.tag([sentence]) == [tags]
    assert len({tag for tags in together for tag in tags}) > 1  # otherwise the test is meaningless


def test_words_beyond_the_maximum_length_have_no_tag() -> None:
    (tags,) = PIECES.tag([["dog"] * 99])
    assert tags[0] is not None
    assert tags[-1] is None
    assert None not in WHOLE.tag([["dog"] * 99])[0]


def test_the_loss_is_summed_over_tagged_words() -> None:
    tagged = [Sentence(tuple(sentence), tuple("NVX"[i % 3] for i in range(len(sentence)))) for sentence in SENTENCES]
    for model, batch in (
        (PIECES.model, TaggedPieces(TOKENIZER, tagged, "NVX", 24).fetch(np.arange(5))),
        (WHOLE.model, TaggedWords(WORDS, tagged, "NVX", 24).fetch(np.arange(5))),
    ):
        summed, metrics = loss(model, batch)
        logits = model(*batch.inputs).flatten(0, 1)
        assert_same(summed, F.cross_entropy(logits, batch.tag_BT.flatten(), reduction="sum", ignore_index=IGNORED))
        assert metrics["accuracy"] == (logits.argmax(1) == batch.tag_BT.flatten()).sum()
        assert torch.isfinite(loss(model, batch.share(8, 9))[0])


def test_a_text_is_split_into_words_and_symbols() -> None:
    assert words("Don't panic: it's 3.5 km!") == ["Don't", "panic", ":", "it's", "3.5", "km", "!"]
    assert words("") == []


def test_a_trace_shows_the_tags() -> None:
    trace = PIECES.trace("the brown dog")
    assert len(trace.target.tokens) == len(trace.streams["text"].tokens)
    tags = PIECES.tag([["the", "brown", "dog"]])[0]
    starts = [i for i, piece in enumerate(trace.streams["text"].pieces) if not piece.startswith(("##", "["))]
    assert [trace.target.pieces[i] for i in starts] == tags
    assert list(trace.target.layout.spelled) == tags
    assert [word for word in trace.target.layout.words if word >= 0] == [0, 1, 2]
    with pytest.raises(ValueError, match="'Q' is not a tag of this model; it has N, V, X"):
        PIECES.trace("the", "Q Q Q")
