import numpy as np
import torch

from pretraining import BEGIN, END, MASK, UNKNOWN, Numbers, is_near_expected, texts, unpadded_examples
from regard.data.batches import IGNORED
from regard.data.pretraining import PretrainingExamples, encoded


def test_the_mask_rate_sets_the_number_of_targets_without_special_tokens(uneven) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, max_length=64, mask_rate=0.15).epoch(0)
    for batch, (length,) in zip(unpadded_examples(epoch), epoch.lengths, strict=True):
        selected = batch.words_BT[batch.words_BT != IGNORED]
        assert len(selected) == max(1, round(0.15 * (int(length) - 3)))
        assert not set(selected.tolist()) & tokenizer.specials
        assert ((batch.tokens_BT == BEGIN) | (batch.tokens_BT == END)).sum() == 3


def test_every_position_is_a_target_equally_often(even) -> None:
    sentences, tokenizer = even
    examples = PretrainingExamples(
        sentences, tokenizer, max_length=22, short_rate=0, mask_rate=0.2, next_sentence=False
    )
    epoch = examples.epoch(0)
    full = np.flatnonzero(epoch.lengths == 22)
    selected = (epoch.fetch(full).words_BT != IGNORED).sum(0).tolist()
    assert len(full) > 200
    assert selected[0] == selected[-1] == 0
    assert all(is_near_expected(count, len(full), 0.2) for count in selected[1:-1])


def test_eighty_percent_of_targets_are_masked_ten_replaced_ten_kept(uneven) -> None:
    sentences, tokenizer = uneven
    examples = PretrainingExamples(sentences, tokenizer, max_length=64)
    batches = [batch for number in range(10) for batch in unpadded_examples(examples.epoch(number))]
    seen, words = (torch.cat([getattr(b, name).flatten() for b in batches]) for name in ("tokens_BT", "words_BT"))
    seen, words = seen[words != IGNORED], words[words != IGNORED]
    masked, kept = seen == MASK, seen == words
    replaced = seen[~masked & ~kept]
    assert len(words) > 4000
    assert is_near_expected(int(masked.sum()), len(words), 0.8)
    assert is_near_expected(int(kept.sum()), len(words), 0.1 + 0.1 / (tokenizer.vocab_size - 5))
    assert replaced.min() >= 5
    half = (tokenizer.vocab_size + 5) / 2
    assert is_near_expected(int((replaced < half).sum()), len(replaced), 0.5)


def test_tokens_that_are_not_targets_are_unchanged(uneven) -> None:
    sentences, tokenizer = uneven
    for batch in unpadded_examples(PretrainingExamples(sentences, tokenizer, max_length=64).epoch(0)):
        one, other = texts(batch)
        assert one + other == [*range(one[0], one[-1] + 1), *range(other[0], other[-1] + 1)]
        assert ((batch.tokens_BT == MASK) <= (batch.words_BT != IGNORED)).all()


def test_unknown_tokens_are_never_targets_and_not_counted(tmp_path) -> None:
    tokenizer = Numbers(30)
    texts = [[f"7 {UNKNOWN} 9 {UNKNOWN} " * 10], [f"{UNKNOWN}"]]
    sentences = encoded(lambda: iter(texts), "key", tokenizer, tmp_path)
    for whole_words in (True, False):
        examples = PretrainingExamples(
            sentences, tokenizer, mask_rate=0.5, short_rate=0, next_sentence=False, whole_words=whole_words
        )
        some, none = unpadded_examples(examples.epoch(0))
        assert sorted(set(some.words_BT.flatten().tolist())) == [IGNORED, 7, 9]
        assert (some.words_BT != IGNORED).sum() == 10
        assert (some.tokens_BT == UNKNOWN).sum() == 20
        assert (none.words_BT == IGNORED).all()


def test_whole_word_masking_selects_all_pieces_of_a_word(uneven) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, max_length=64, whole_words=True).epoch(0)
    few = counts = 0
    for batch, (length,) in zip(unpadded_examples(epoch), epoch.lengths, strict=True):
        selected = (batch.words_BT != IGNORED)[0].tolist()
        one, other = texts(batch)
        places = [(0, token // 4) for token in one] + [None] + [(1, token // 4) for token in other]
        words = {place: [] for place in places if place}
        for place, is_target in zip(places, selected[1:-1], strict=True):
            if place:
                words[place].append(is_target)
        assert all(len(set(word)) == 1 for word in words.values())
        assert 1 <= sum(selected) <= max(4, round(0.15 * (int(length) - 3)))
        few += sum(selected)
        counts += max(1, round(0.15 * (int(length) - 3)))
    assert 0.85 < few / counts < 1.15


def test_whole_word_masking_may_select_a_word_longer_than_the_mask_rate(tmp_path) -> None:
    tokenizer = Numbers(20)
    sentences = encoded(lambda: iter([["8 9 10 11 12 13 14 15"]]), "key", tokenizer, tmp_path)
    examples = PretrainingExamples(sentences, tokenizer, short_rate=0, next_sentence=False, whole_words=True)
    (batch,) = unpadded_examples(examples.epoch(0))
    assert batch.words_BT[batch.words_BT != IGNORED].tolist() in ([8, 9, 10, 11], [12, 13, 14, 15])
