import numpy as np
import torch

from pretraining import BEGIN, END, MASK, UNKNOWN, Numbers, fetched, probable, texts
from regard.data.batches import IGNORED
from regard.data.pretraining import PretrainingExamples, encoded


def test_a_share_of_the_tokens_is_asked_for_and_never_a_mark(uneven) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, max_length=64, mask_rate=0.15).epoch(0)
    for batch, (length,) in zip(fetched(epoch), epoch.lengths, strict=True):
        selected = batch.words_BT[batch.words_BT != IGNORED]
        assert len(selected) == max(1, round(0.15 * (int(length) - 3)))
        assert not set(selected.tolist()) & tokenizer.specials
        assert ((batch.tokens_BT == BEGIN) | (batch.tokens_BT == END)).sum() == 3


def test_every_place_is_asked_for_equally_often(even) -> None:
    sentences, tokenizer = even
    examples = PretrainingExamples(
        sentences, tokenizer, max_length=22, short_rate=0, mask_rate=0.2, next_sentence=False
    )
    epoch = examples.epoch(0)
    full = np.flatnonzero(epoch.lengths == 22)
    selected = (epoch.fetch(full).words_BT != IGNORED).sum(0).tolist()
    assert len(full) > 200
    assert selected[0] == selected[-1] == 0
    assert all(probable(count, len(full), 0.2) for count in selected[1:-1])


def test_most_are_masked_some_are_replaced_and_some_are_kept(uneven) -> None:
    sentences, tokenizer = uneven
    examples = PretrainingExamples(sentences, tokenizer, max_length=64)
    batches = [batch for number in range(10) for batch in fetched(examples.epoch(number))]
    seen, words = (torch.cat([getattr(b, name).flatten() for b in batches]) for name in ("tokens_BT", "words_BT"))
    seen, words = seen[words != IGNORED], words[words != IGNORED]
    masked, kept = seen == MASK, seen == words
    replaced = seen[~masked & ~kept]
    assert len(words) > 4000
    assert probable(int(masked.sum()), len(words), 0.8)
    assert probable(int(kept.sum()), len(words), 0.1 + 0.1 / (tokenizer.vocab_size - 5))
    assert replaced.min() >= 5
    half = (tokenizer.vocab_size + 5) / 2
    assert probable(int((replaced < half).sum()), len(replaced), 0.5)


def test_what_is_not_asked_for_is_seen_as_it_is(uneven) -> None:
    sentences, tokenizer = uneven
    for batch in fetched(PretrainingExamples(sentences, tokenizer, max_length=64).epoch(0)):
        one, other = texts(batch)
        assert one + other == [*range(one[0], one[-1] + 1), *range(other[0], other[-1] + 1)]
        assert ((batch.tokens_BT == MASK) <= (batch.words_BT != IGNORED)).all()


def test_special_tokens_in_a_text_are_neither_asked_for_nor_counted(tmp_path) -> None:
    tokenizer = Numbers(30)
    texts = [[f"7 {UNKNOWN} 9 {UNKNOWN} " * 10], [f"{UNKNOWN}"]]
    sentences = encoded(lambda: iter(texts), "key", tokenizer, tmp_path)
    for whole_words in (True, False):
        examples = PretrainingExamples(
            sentences, tokenizer, mask_rate=0.5, short_rate=0, next_sentence=False, whole_words=whole_words
        )
        some, none = fetched(examples.epoch(0))
        assert sorted(set(some.words_BT.flatten().tolist())) == [IGNORED, 7, 9]
        assert (some.words_BT != IGNORED).sum() == 10
        assert (some.tokens_BT == UNKNOWN).sum() == 20
        assert (none.words_BT == IGNORED).all()


def test_whole_words_are_asked_for_together(uneven) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, max_length=64, whole_words=True).epoch(0)
    few = counts = 0
    for batch, (length,) in zip(fetched(epoch), epoch.lengths, strict=True):
        selected = (batch.words_BT != IGNORED)[0].tolist()
        one, other = texts(batch)
        places = [(0, token // 4) for token in one] + [None] + [(1, token // 4) for token in other]
        words = {place: [] for place in places if place}
        for place, is_asked in zip(places, selected[1:-1], strict=True):
            if place:
                words[place].append(is_asked)
        assert all(len(set(word)) == 1 for word in words.values())
        assert 1 <= sum(selected) <= max(4, round(0.15 * (int(length) - 3)))
        few += sum(selected)
        counts += max(1, round(0.15 * (int(length) - 3)))
    assert 0.85 < few / counts < 1.15


def test_a_word_longer_than_the_share_is_still_asked_for(tmp_path) -> None:
    tokenizer = Numbers(20)
    sentences = encoded(lambda: iter([["8 9 10 11 12 13 14 15"]]), "key", tokenizer, tmp_path)
    examples = PretrainingExamples(sentences, tokenizer, short_rate=0, next_sentence=False, whole_words=True)
    (batch,) = fetched(examples.epoch(0))
    assert batch.words_BT[batch.words_BT != IGNORED].tolist() in ([8, 9, 10, 11], [12, 13, 14, 15])
