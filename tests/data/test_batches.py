from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.codecs.subword import BEGIN, END, PAD_ID, SubwordTokenizer
from regard.data.batches import Batches, Position, count_tokens, pad, padding
from regard.data.corpus import Corpus, encoded
from regard.data.parallel import PairBatch, Pairs, pair_batch

RNG = np.random.default_rng(0)
PAIRS = [
    ("a" * n, "b" * max(1, n + d)) for n, d in zip(RNG.integers(1, 30, 500), RNG.integers(-3, 4, 500), strict=True)
]
TOKENIZER = SubwordTokenizer.train("bpe", 259, [])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return encoded(lambda: iter(PAIRS), "key", TOKENIZER, TOKENIZER, 100, tmp_path_factory.mktemp("cache"))


def make(corpora: list[tuple[Corpus, float]], tokens: int = 400, seed: int = 1, size=None) -> Batches[PairBatch]:
    return Batches(Pairs(corpora, seed), tokens, seed, size)


def numbers(batches: Batches, epoch: int) -> list[list[int]]:
    """The indices of the pairs of each batch."""
    drawn = batches.examples.epoch(epoch).sampled
    return [drawn[batch].tolist() for batch in batches.plan(epoch)]


def test_batches_have_begin_end_and_padding_tokens() -> None:
    batch = pair_batch([[5, 6], [7]], [[8], [9, 10, 11]])
    assert batch.source_BS.tolist() == [[5, 6, END], [7, END, PAD_ID]]
    assert batch.target_BT.tolist() == [[BEGIN, 8, PAD_ID, PAD_ID], [BEGIN, 9, 10, 11]]
    assert batch.next_BT.tolist() == [[8, END, PAD_ID, PAD_ID], [9, 10, 11, END]]
    assert batch.is_padding_BS.tolist() == [[False, False, False], [False, False, True]]
    assert [x.data_ptr() for x in batch.inputs] == [
        x.data_ptr() for x in (batch.source_BS, batch.target_BT, batch.is_padding_BS)
    ]
    assert pad([], PAD_ID).shape == (0, 0)


def test_batches_without_padding_have_no_mask() -> None:
    batch = pair_batch([[5, 6], [7, 8]], [[8], [9, 10, 11]])
    assert batch.is_padding_BS is None
    assert len(batch.inputs) == 2
    for other in (batch.to(torch.device("cpu")), batch.share(1, 2), batch.share(5, 9)):
        assert other.is_padding_BS is None
    assert padding([]) is None
    assert padding([3, 3]) is None
    assert padding([0, 2]).tolist() == [[True, True], [False, False]]


def test_padding_masks_are_split_and_moved_with_their_batch() -> None:
    batch = pair_batch([[5, 6], [PAD_ID], [7, 8, 9]], [[8], [9], [10]])
    assert batch.is_padding_BS.tolist() == [[False, False, False, True], [False, False, True, True], [False] * 4]
    assert batch.share(1, 2).is_padding_BS.tolist() == [[False, False, True, True]]
    assert batch.share(4, 5).is_padding_BS.tolist() == [[False, False, False, True]]
    assert batch.to(torch.device("meta")).is_padding_BS.device.type == "meta"
    assert count_tokens(batch.source_BS, batch.is_padding_BS) == 3 + 2 + 4


def test_an_epoch_has_every_pair_once_within_the_token_budget(corpus) -> None:
    batches = make([(corpus, 1)])
    plan = numbers(batches, 0)
    assert Counter(i for batch in plan for i in batch) == Counter(range(500))
    for batch in plan:
        assert batches.examples.lengths[batch].max() * len(batch) <= 400


def test_batch_size_limits_the_number_of_examples(corpus) -> None:
    plan = numbers(make([(corpus, 1)], size=7), 0)
    assert Counter(i for batch in plan for i in batch) == Counter(range(500))
    assert max(map(len, plan)) == 7


def test_batches_have_less_than_five_percent_padding(corpus) -> None:
    batches = make([(corpus, 6)])  # 3,000 pairs
    real = padded = 0
    for indices in numbers(batches, 0):
        for lengths in batches.examples.lengths[indices].T:
            real, padded = real + lengths.sum(), padded + lengths.max() * len(lengths)
    assert 1 - real / padded < 0.05


def test_seed_and_epoch_determine_the_order(corpus) -> None:
    plans = [numbers(make([(corpus, 1)], seed=seed), epoch) for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]
    assert plans[0] != plans[3]


def same(one, other) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("source_BS", "target_BT", "next_BT"))


@given(st.integers(0, 120))
def test_batches_resume_from_a_saved_position(corpus, start) -> None:
    uninterrupted, resumed = make([(corpus, 1)]), make([(corpus, 1)])
    for _ in range(start):
        next(uninterrupted)
    resumed.position = uninterrupted.position
    for _ in range(3):
        assert same(next(uninterrupted), next(resumed))


def test_the_next_epoch_follows_the_last_batch(corpus) -> None:
    batches = make([(corpus, 1)])
    for _ in batches.plan(0):
        next(batches)
    assert batches.position == Position(epoch=1, batch=0)


def test_batches_contain_the_sentences_of_their_indices(corpus) -> None:
    indices = np.array([3, 503, 499, 999])
    batch = Pairs([(corpus, 1), (corpus, 1)], seed=1).epoch(0).fetch(indices)
    for row, index in zip(batch.source_BS, indices, strict=True):
        assert TOKENIZER.decode([row.tolist()]) == [PAIRS[index % 500][0]]


def test_corpus_weights_set_how_often_pairs_occur(corpus) -> None:
    batches = make([(corpus, 2), (corpus, 0.5)])
    counts = Counter(i for batch in numbers(batches, 0) for i in batch)
    assert all(counts[i] == 2 for i in range(500))
    assert sum(counts[i] for i in range(500, 1000)) == 250
    assert max(counts[i] for i in range(500, 1000)) == 1


def test_every_batch_is_split_between_processes(corpus) -> None:
    batch = next(make([(corpus, 1)]))
    shares = [batch.share(rank, 3) for rank in range(3)]
    rows = [row.tolist() for share in shares for row in share.source_BS]
    assert sorted(rows) == sorted(row.tolist() for row in batch.source_BS)


def test_too_long_pairs_and_empty_corpora_are_reported(corpus, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not fit a batch of 20; raise train.batch_tokens"):
        make([(corpus, 1)], tokens=20)
    empty = encoded(lambda: iter([]), "none", TOKENIZER, TOKENIZER, 100, tmp_path)
    with pytest.raises(ValueError, match="no sentence pairs are left; check the counts"):
        make([(empty, 1)])


def test_a_corpus_with_a_tiny_weight_has_at_least_one_pair(corpus) -> None:
    assert [len(batch) for batch in numbers(make([(corpus, 0.0001)]), 0)] == [1]
