import numpy as np
import pytest
import torch

from regard.codecs.words import Words
from regard.data.batches import IGNORED
from regard.data.conllu import Sentence
from regard.data.tagged import ConlluConfig, TaggedPieces, TaggedWords, in_pieces
from texts import TOKENIZER

SENTENCES = [Sentence(("playing", "dogs", "ran"), ("V", "N", "V")), Sentence(("bread",), ("N",))]


def test_the_target_is_at_the_first_piece_of_each_word() -> None:
    batch = TaggedPieces(TOKENIZER, SENTENCES, ("N", "V"), max_length=24).fetch(np.array([1, 0]))
    row = batch.tag_BT[1].tolist()
    pieces = TOKENIZER.pieces(batch.tokens_BT[1].tolist())
    targets = [(piece, tag) for piece, tag in zip(pieces, row, strict=True) if tag != IGNORED]
    assert [tag for _, tag in targets] == [1, 0, 1]
    assert not any(piece.startswith(("##", "[")) for piece, _ in targets)
    assert batch.tag_BT[0].tolist().count(IGNORED) == batch.tag_BT.size(1) - 1
    assert torch.equal(batch.is_padding_BT, batch.tokens_BT == TOKENIZER.pad)
    assert [x.shape for x in batch.inputs] == [batch.tokens_BT.shape] * 3


def test_sentences_are_truncated_to_the_maximum_length() -> None:
    (whole,) = in_pieces(TOKENIZER, [SENTENCES[0].words], max_length=24)
    assert len(whole.firsts) == 3
    tagged = TaggedPieces(TOKENIZER, SENTENCES, ("N", "V"), max_length=4)
    assert tagged.truncated == 1
    assert tagged.max_length == 4


def test_batches_of_words_have_features_tags_and_padding() -> None:
    words = Words.learn([sentence.words for sentence in SENTENCES], min_count=1)
    tagged = TaggedWords(words, SENTENCES, ("N", "V"), max_length=2)
    batch = tagged.fetch(np.array([0, 1]))
    assert batch.features_BTE.shape == (2, 2, 3)
    assert batch.features_BTE[1, 1].tolist() == [0, 0, 0]
    assert batch.tag_BT.tolist() == [[1, 0], [0, IGNORED]]
    assert batch.is_padding_BT.tolist() == [[False, False], [False, True]]
    assert len(batch.inputs) == 2
    assert len(tagged.fetch(np.array([1])).inputs) == 1
    assert tagged.truncated == 1
    assert batch.features_BTE[0].tolist() == words.encode([SENTENCES[0].words])[0][:2].tolist()


def test_tags_not_seen_in_training_are_ignored() -> None:
    batch = TaggedPieces(TOKENIZER, SENTENCES, ("N",), max_length=24).fetch(np.array([0]))
    assert [tag for tag in batch.tag_BT[0].tolist() if tag != IGNORED] == [0]


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(ValueError, match=r"a\.conllu: no such file"):
        ConlluConfig(train="a.conllu", valid="a.conllu").paths()
