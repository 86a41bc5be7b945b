from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches import Batches
from regard.data.documents import documents
from regard.data.pretraining import (
    IGNORED,
    PretrainingBatch,
    PretrainingEpoch,
    PretrainingExamples,
    Sentences,
    encoded,
    fitted,
)
from regard.data.wordpiece import WordPiece

SPECIALS = PAD, UNKNOWN, BEGIN, END, MASK = range(5)


class Numbers:
    """A tokenizer whose words are the numbers of its tokens. Those that 4 does not divide go on with a word."""

    pad, unknown, begin, end, mask = SPECIALS
    specials = frozenset(SPECIALS)

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[int(word) for word in text.split()] for text in texts]

    def pieces(self, ids: list[int]) -> list[str]:
        return [f"##{i}" if i % 4 and i not in SPECIALS else str(i) for i in ids]

    def to_json(self) -> str:
        return str(self.vocab_size)


def corpus(folder: Path, documents: list[list[int]]) -> tuple[Sentences, Numbers]:
    """Documents with sentences of these lengths, whose tokens are all the numbers from 5 on: each tells its place."""
    bounds = np.cumsum([5, *(length for document in documents for length in document)])
    sentences = iter([" ".join(map(str, range(*bound))) for bound in pairwise(bounds)])
    texts = [[next(sentences) for _ in document] for document in documents]
    tokenizer = Numbers(int(bounds[-1]))
    return encoded(lambda: iter(texts), "key", tokenizer, folder), tokenizer


@pytest.fixture(scope="module")
def even(tmp_path_factory) -> tuple[Sentences, Numbers]:
    """100 documents of 1 to 59 sentences of 2 tokens."""
    return corpus(tmp_path_factory.mktemp("even"), [[2] * (1 + i * 7 % 59) for i in range(100)])


@pytest.fixture(scope="module")
def uneven(tmp_path_factory) -> tuple[Sentences, Numbers]:
    """Sentences of 1 to 59 tokens."""
    chance = np.random.default_rng(0)
    lengths = [chance.integers(1, 60, size).tolist() for size in chance.integers(1, 40, 20)]
    return corpus(tmp_path_factory.mktemp("uneven"), lengths)


def fetched(epoch: PretrainingEpoch) -> list[PretrainingBatch]:
    """Each example of an epoch, without padding."""
    lengths = epoch.lengths[:, 0].tolist()
    whole = epoch.fetch(np.arange(len(lengths)))
    rows = ((length, [tensor[i : i + 1] for tensor in vars(whole).values()]) for i, length in enumerate(lengths))
    return [
        PretrainingBatch(tokens_BT[:, :length], segments_BT[:, :length], words_BT[:, :length], follows_B)
        for length, (tokens_BT, segments_BT, words_BT, follows_B) in rows
    ]


def texts(batch: PretrainingBatch) -> tuple[list[int], list[int]]:
    """A and B of a batch of one, with the true tokens, after a look at the marks around them."""
    tokens = torch.where(batch.words_BT == IGNORED, batch.tokens_BT, batch.words_BT)[0].tolist()
    middle = tokens.index(END)
    assert tokens[0] == BEGIN
    assert tokens[-1] == END
    assert batch.segments_BT[0].tolist() == [0] * (middle + 1) + [1] * (len(tokens) - middle - 1)
    return tokens[1:middle], tokens[middle + 1 : -1]


def document(sentences: Sentences, token: int) -> int:
    return int(sentences.documents_of(np.searchsorted(sentences.begins, [token - 5], side="right") - 1)[0])


def probable(count: int, trials: int, share: float) -> bool:
    """Within 5 standard deviations of the binomial distribution: chance leaves it once in a million times."""
    return abs(count - trials * share) < 5 * sqrt(trials * share * (1 - share))


def test_half_of_the_texts_follow_and_half_are_of_another_document(even) -> None:
    sentences, tokenizer = even
    ends = set((sentences.begins[sentences.documents] + 5).tolist())
    follow = []
    for batch in fetched(PretrainingExamples(sentences, tokenizer, longest=23, short=0).epoch(0)):
        one, other = texts(batch)
        follows = not batch.follows_B
        # sentences of 2 tokens fill the 20 exactly, so nothing is cut off
        assert follows == (other[0] == one[-1] + 1)
        assert follows == (document(sentences, one[0]) == document(sentences, other[0]))
        if one[0] + 2 in ends:
            assert not follows  # nothing comes after the last sentence of a document
        else:
            follow.append(follows)
    assert len(follow) > 400
    assert probable(sum(follow), len(follow), 0.5)


@pytest.mark.parametrize("next_sentence", [True, False])
def test_all_text_comes_once_in_an_epoch_apart_from_what_does_not_follow(even, next_sentence) -> None:
    sentences, tokenizer = even
    longest = 23 if next_sentence else 22
    examples = PretrainingExamples(sentences, tokenizer, longest=longest, short=0, next_sentence=next_sentence)
    seen = []
    for batch in fetched(examples.epoch(0)):
        one, other = texts(batch)
        seen += one + other if batch.follows_B <= 0 else one
    assert seen == list(range(5, tokenizer.vocab_size))


def test_a_ends_at_any_place_and_what_does_not_follow_begins_in_any_document(even) -> None:
    sentences, tokenizer = even
    ends, others = [], []
    for batch in fetched(PretrainingExamples(sentences, tokenizer, longest=23, short=0).epoch(0)):
        one, other = texts(batch)
        if batch.follows_B:
            others.append(document(sentences, other[0]))
        elif len(one + other) == 20:
            ends.append(len(one) // 2)
    assert all(probable(ends.count(place), len(ends), 1 / 9) for place in range(1, 10))
    assert {0, 10} & set(ends) == set()
    assert all(probable(sum(low <= o < low + 25 for o in others), len(others), 0.25) for low in range(0, 100, 25))


@pytest.mark.parametrize("next_sentence", [True, False])
def test_texts_are_whole_pieces_of_documents_that_fit(uneven, next_sentence) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, longest=32, next_sentence=next_sentence).epoch(0)
    cut = 0
    for batch, (length,) in zip(fetched(epoch), epoch.lengths, strict=True):
        assert batch.tokens_BT.shape == batch.words_BT.shape == (1, length)
        assert length <= 32
        one, other = texts(batch)
        assert bool(other) == next_sentence
        for text in filter(None, (one, other)):
            assert text == list(range(text[0], text[-1] + 1))
            assert document(sentences, text[0]) == document(sentences, text[-1])
        if not next_sentence:
            assert batch.follows_B.tolist() == [IGNORED]
            continue
        assert batch.follows_B.item() == (document(sentences, one[0]) != document(sentences, other[0]))
        if not batch.follows_B:
            assert other[0] > one[-1]
            assert other[0] == one[-1] + 1 or length == 32
            cut += other[0] > one[-1] + 1
    assert (cut > 0) == next_sentence
    assert (epoch.lengths == 32).mean() > 0.5


def test_some_examples_are_short(even) -> None:
    sentences, tokenizer = even
    lengths = {
        short: PretrainingExamples(sentences, tokenizer, longest=103, short=short, next_sentence=False).epoch(0).lengths
        for short in (0, 1)
    }
    # documents have less than 118 tokens, so that without `short` an example ends with its document or is full
    assert lengths[1].mean() < 0.8 * lengths[0].mean()
    assert lengths[1].min() >= 4


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 50))
def test_the_longer_text_loses_token_by_token(one, other, room) -> None:
    expected = [one, other]
    while sum(expected) > room:
        expected[0 if expected[0] > expected[1] else 1] -= 1
    assert fitted(np.array([[one, other]]), room).tolist() == [expected]
    assert min(expected) > 0


def test_tokens_are_cut_off_at_the_front_and_at_the_back(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [[120], [120]])
    fronts = [
        texts(batch)[0][0] - 5 - 120 * i
        for number in range(50)
        for i, batch in enumerate(fetched(PretrainingExamples(sentences, tokenizer, longest=43).epoch(number)))
    ]
    assert len(fronts) == 100
    assert probable(sum(fronts), 100 * 100, 0.5)  # 100 of the 120 are cut off


def test_a_sentence_longer_than_an_example_is_cut(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [[500], [3, 500], [1]])
    for next_sentence in (True, False):
        epoch = PretrainingExamples(sentences, tokenizer, longest=5, next_sentence=next_sentence).epoch(0)
        assert {length for (length,) in epoch.lengths.tolist()} <= {3, 4, 5}
        assert all(texts(batch)[0] for batch in fetched(epoch))


def test_a_share_of_the_tokens_is_asked_for_and_never_a_mark(uneven) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, longest=64, masked=0.15).epoch(0)
    for batch, (length,) in zip(fetched(epoch), epoch.lengths, strict=True):
        asked = batch.words_BT[batch.words_BT != IGNORED]
        assert len(asked) == max(1, round(0.15 * (int(length) - 3)))
        assert not set(asked.tolist()) & tokenizer.specials
        assert ((batch.tokens_BT == BEGIN) | (batch.tokens_BT == END)).sum() == 3


def test_every_place_is_asked_for_equally_often(even) -> None:
    sentences, tokenizer = even
    examples = PretrainingExamples(sentences, tokenizer, longest=22, short=0, masked=0.2, next_sentence=False)
    epoch = examples.epoch(0)
    full = np.flatnonzero(epoch.lengths == 22)
    asked = (epoch.fetch(full).words_BT != IGNORED).sum(0).tolist()
    assert len(full) > 200
    assert asked[0] == asked[-1] == 0
    assert all(probable(count, len(full), 0.2) for count in asked[1:-1])


def test_most_are_masked_some_are_replaced_and_some_are_kept(uneven) -> None:
    sentences, tokenizer = uneven
    examples = PretrainingExamples(sentences, tokenizer, longest=64)
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
    for batch in fetched(PretrainingExamples(sentences, tokenizer, longest=64).epoch(0)):
        one, other = texts(batch)
        assert one + other == [*range(one[0], one[-1] + 1), *range(other[0], other[-1] + 1)]
        assert ((batch.tokens_BT == MASK) <= (batch.words_BT != IGNORED)).all()


def test_special_tokens_in_a_text_are_neither_asked_for_nor_counted(tmp_path) -> None:
    tokenizer = Numbers(30)
    texts = [[f"7 {UNKNOWN} 9 {UNKNOWN} " * 10], [f"{UNKNOWN}"]]
    sentences = encoded(lambda: iter(texts), "key", tokenizer, tmp_path)
    for whole_words in (True, False):
        examples = PretrainingExamples(
            sentences, tokenizer, masked=0.5, short=0, next_sentence=False, whole_words=whole_words
        )
        some, none = fetched(examples.epoch(0))
        assert sorted(set(some.words_BT.flatten().tolist())) == [IGNORED, 7, 9]
        assert (some.words_BT != IGNORED).sum() == 10
        assert (some.tokens_BT == UNKNOWN).sum() == 20
        assert (none.words_BT == IGNORED).all()


def test_whole_words_are_asked_for_together(uneven) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, longest=64, whole_words=True).epoch(0)
    few = counts = 0
    for batch, (length,) in zip(fetched(epoch), epoch.lengths, strict=True):
        asked = (batch.words_BT != IGNORED)[0].tolist()
        one, other = texts(batch)
        places = [(0, token // 4) for token in one] + [None] + [(1, token // 4) for token in other]
        words = {place: [] for place in places if place}
        for place, is_asked in zip(places, asked[1:-1], strict=True):
            if place:
                words[place].append(is_asked)
        assert all(len(set(word)) == 1 for word in words.values())
        assert 1 <= sum(asked) <= max(4, round(0.15 * (int(length) - 3)))
        few += sum(asked)
        counts += max(1, round(0.15 * (int(length) - 3)))
    assert 0.85 < few / counts < 1.15


def test_a_word_longer_than_the_share_is_still_asked_for(tmp_path) -> None:
    tokenizer = Numbers(20)
    sentences = encoded(lambda: iter([["8 9 10 11 12 13 14 15"]]), "key", tokenizer, tmp_path)
    examples = PretrainingExamples(sentences, tokenizer, short=0, next_sentence=False, whole_words=True)
    (batch,) = fetched(examples.epoch(0))
    assert batch.words_BT[batch.words_BT != IGNORED].tolist() in ([8, 9, 10, 11], [12, 13, 14, 15])


def test_an_example_is_the_same_in_any_batch(uneven) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, longest=40).epoch(3)
    order = np.random.default_rng(1).permutation(len(epoch.lengths))
    whole = epoch.fetch(order)
    assert whole.tokens_BT.shape[1] == epoch.lengths.max()
    for row, i in enumerate(order):
        length, batch = int(epoch.lengths[i, 0]), epoch.fetch(np.array([i]))
        for name, filler in (("tokens_BT", PAD), ("segments_BT", 0), ("words_BT", IGNORED)):
            of_whole = getattr(whole, name)[row]
            assert torch.equal(of_whole[:length], getattr(batch, name)[0])
            assert (of_whole[length:] == filler).all()
        assert whole.follows_B[row] == batch.follows_B[0]


def test_an_epoch_is_the_same_again_and_no_other_is_like_it(uneven) -> None:
    sentences, tokenizer = uneven

    def contents(seed: int, number: int) -> list[tuple]:
        epoch = PretrainingExamples(sentences, tokenizer, longest=40, seed=seed).epoch(number)
        return [tuple(tuple(tensor.flatten().tolist()) for tensor in vars(batch).values()) for batch in fetched(epoch)]

    first = contents(1, 0)
    assert contents(1, 0) == first
    for other in (contents(1, 1), contents(2, 0)):
        assert len(set(other) & set(first)) < 0.1 * len(first)
    plans = [
        PretrainingExamples(sentences, tokenizer, longest=40, seed=seed).epoch(number).begins.tobytes()
        for seed, number in ((1, 0), (1, 1), (2, 0), (2, 1))
    ]
    assert len(set(plans)) == 4


def test_training_goes_on_where_it_stopped(uneven) -> None:
    sentences, tokenizer = uneven

    def batches() -> Batches[PretrainingBatch]:
        return Batches(PretrainingExamples(sentences, tokenizer, longest=40), tokens=2000, seed=1)

    never_stopped, stopped = batches(), batches()
    for _ in range(len(never_stopped.plan(0)) + 3):
        next(never_stopped)
    stopped.position = never_stopped.position
    assert stopped.position.epoch == 1
    expected, found = next(never_stopped), next(stopped)
    assert all(torch.equal(tensor, getattr(found, name)) for name, tensor in vars(expected).items())


def test_one_document_has_nothing_that_does_not_follow(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [[3, 4, 5]])
    with pytest.raises(ValueError, match="one document.*more files.*data.split"):
        PretrainingExamples(sentences, tokenizer)
    (batch,) = fetched(PretrainingExamples(sentences, tokenizer, short=0, next_sentence=False).epoch(0))
    assert texts(batch) == (list(range(5, 17)), [])


def test_empty_text_is_refused(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [])
    assert len(sentences) == 0
    with pytest.raises(ValueError, match="there is too little text"):
        PretrainingExamples(sentences, tokenizer)


def test_examples_without_room_are_refused(even) -> None:
    with pytest.raises(ValueError, match="4 tokens are too short.* 5"):
        PretrainingExamples(*even, longest=4)


def test_sentences_and_documents_without_tokens_are_left_out(tmp_path) -> None:
    texts = [["", "7 8"], ["", " "], [], ["9", ""]]
    sentences = encoded(lambda: iter(texts), "key", Numbers(10), tmp_path)
    assert sentences.tokens.tolist() == [7, 8, 9]
    assert sentences.begins.tolist() == [0, 2, 3]
    assert sentences.documents.tolist() == [0, 1, 2]


def test_the_same_is_encoded_once_and_anything_else_anew(tmp_path) -> None:
    reads = []

    def read():
        reads.append(1)
        return iter([["7 8"], ["9"]])

    for key, vocab_size in (("a", 10), ("a", 10), ("b", 10), ("b", 11)):
        assert len(encoded(read, key, Numbers(vocab_size), tmp_path)) == 2
    assert len(reads) == len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["tokens.bin", "sentences.npy", "documents.npy"])
@pytest.mark.parametrize("damage", ["emptied", "shortened", "exchanged", "lost"])
def test_what_is_damaged_is_made_again(tmp_path, name, damage) -> None:
    corpus(tmp_path, [[3, 4], [5]])
    (folder,) = tmp_path.iterdir()
    data = (folder / name).read_bytes()
    if damage == "lost":
        (folder / name).unlink()
    elif damage == "exchanged":
        corpus(tmp_path / "other", [[1], [2], [3], [4]])
        (other,) = (tmp_path / "other").iterdir()
        (folder / name).write_bytes((other / name).read_bytes())
    else:
        (folder / name).write_bytes(b"" if damage == "emptied" else data[:-8])
    with pytest.raises((ValueError, EOFError, FileNotFoundError)):
        Sentences(folder)
    sentences, _ = corpus(tmp_path, [[3, 4], [5]])
    assert sentences.tokens.tolist() == list(range(5, 17))
    assert (folder / name).read_bytes() == data


def test_a_process_without_a_share_is_asked_nothing(uneven) -> None:
    share = PretrainingExamples(*uneven, longest=40).epoch(0).fetch(np.arange(2)).share(rank=2, world=3)
    assert share.tokens_BT.shape == share.words_BT.shape
    assert len(share.tokens_BT) == 1
    assert (share.words_BT == IGNORED).all()
    assert share.follows_B.tolist() == [IGNORED]


def test_a_text_comes_back_from_its_example(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("= Sea =\nThe lobster walks. It\nwalked backwards.\n= Land =\nThe snail is slow.\n")
    read = list(documents(tmp_path / "a.txt", "heading"))
    tokenizer = WordPiece.train(60, [sentence for document in read for sentence in document])
    sentences = encoded(lambda: iter(read), "key", tokenizer, tmp_path)
    examples = PretrainingExamples(sentences, tokenizer, short=0, next_sentence=False, whole_words=True)
    found = []
    for batch in fetched(examples.epoch(0)):
        asked_BT = batch.words_BT != IGNORED
        tokens = torch.where(asked_BT, batch.words_BT, batch.tokens_BT)[0].tolist()
        found.append(tokenizer.decode([tokens])[0].replace(" ", ""))
        assert tokenizer.pieces(tokens)[:: len(tokens) - 1] == ["[CLS]", "[SEP]"]
        # a piece that goes on with a word is asked for if the piece before it is
        goes_on = torch.tensor([piece.startswith("##") for piece in tokenizer.pieces(tokens)])
        assert goes_on.any()
        assert torch.equal(asked_BT[0, 1:][goes_on[1:]], asked_BT[0, :-1][goes_on[1:]])
    assert found == ["thelobsterwalks.itwalkedbackwards.", "thesnailisslow."]
