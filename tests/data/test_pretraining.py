import numpy as np
import pytest
import torch

from pretraining import PAD_ID, Numbers, corpus, is_near_expected, texts, unpadded_examples
from regard.codecs.wordpiece import WordPiece
from regard.data.batches import IGNORED, Batches
from regard.data.documents import documents
from regard.data.pretraining import PretrainingBatch, PretrainingExamples, Sentences, encoded


def document(sentences: Sentences, token: int) -> int:
    return int(sentences.documents_of(np.searchsorted(sentences.begins, [token - 5], side="right") - 1)[0])


def test_half_of_the_pairs_are_consecutive_and_half_from_another_document(even) -> None:
    sentences, tokenizer = even
    ends = set((sentences.begins[sentences.documents] + 5).tolist())
    follow = []
    for batch in unpadded_examples(PretrainingExamples(sentences, tokenizer, max_length=23, short_rate=0).epoch(0)):
        one, other = texts(batch)
        follow.append(follows := not batch.follows_B)
        # sentences of 2 tokens fill the 20 exactly, so nothing is truncated
        assert follows == (other[0] == one[-1] + 1)
        assert follows == (document(sentences, one[0]) == document(sentences, other[0]))
        if one[0] + 2 in ends:
            assert not follows  # the last sentence of a document has no next sentence
    assert len(follow) > 400
    assert is_near_expected(sum(follow), len(follow), 0.5)


@pytest.mark.parametrize("sizes", [(1, 2, 6), (2, 3), (1, 1, 5, 7)])
@pytest.mark.parametrize("length", [2, 30])
def test_half_of_the_pairs_are_consecutive_if_documents_are_short(tmp_path, sizes, length) -> None:
    sentences, tokenizer = corpus(tmp_path, [[length] * size for size in sizes * 300])
    follows = PretrainingExamples(sentences, tokenizer, max_length=23).epoch(0).follows
    assert is_near_expected(follows.sum(), len(follows), 0.5)


def test_with_one_sentence_documents_all_possible_pairs_are_consecutive(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [[5] * size for size in (1, 1, 1, 2) * 100])
    follows = PretrainingExamples(sentences, tokenizer, max_length=23).epoch(0).follows
    assert follows.sum() == 300  # the documents of one sentence


@pytest.mark.parametrize("next_sentence", [True, False])
def test_each_token_occurs_once_per_epoch_except_in_random_second_texts(even, next_sentence) -> None:
    sentences, tokenizer = even
    max_length = 23 if next_sentence else 22
    examples = PretrainingExamples(
        sentences, tokenizer, max_length=max_length, short_rate=0, next_sentence=next_sentence
    )
    seen = []
    for batch in unpadded_examples(examples.epoch(0)):
        one, other = texts(batch)
        seen += one + other if batch.follows_B <= 0 else one
    assert seen == list(range(5, tokenizer.vocab_size))


def test_split_points_and_random_documents_are_uniformly_distributed(even) -> None:
    sentences, tokenizer = even
    ends, others = [], []
    for batch in unpadded_examples(PretrainingExamples(sentences, tokenizer, max_length=23, short_rate=0).epoch(0)):
        one, other = texts(batch)
        if batch.follows_B:
            others.append(document(sentences, other[0]))
        elif len(one + other) == 20:
            ends.append(len(one) // 2)
    assert all(is_near_expected(ends.count(place), len(ends), 1 / 9) for place in range(1, 10))
    assert {0, 10} & set(ends) == set()
    assert all(
        is_near_expected(sum(low <= o < low + 25 for o in others), len(others), 0.25) for low in range(0, 100, 25)
    )


@pytest.mark.parametrize("next_sentence", [True, False])
def test_texts_are_contiguous_within_a_document_and_within_the_maximum_length(uneven, next_sentence) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, max_length=32, next_sentence=next_sentence).epoch(0)
    truncated = 0
    for batch, (length,) in zip(unpadded_examples(epoch), epoch.lengths, strict=True):
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
            truncated += other[0] > one[-1] + 1
    assert (truncated > 0) == next_sentence
    assert (epoch.lengths == 32).mean() > 0.5


def test_short_rate_makes_some_examples_shorter(even) -> None:
    sentences, tokenizer = even
    lengths = {
        short_rate: PretrainingExamples(
            sentences, tokenizer, max_length=103, short_rate=short_rate, next_sentence=False
        )
        .epoch(0)
        .lengths
        for short_rate in (0, 1)
    }
    # documents have less than 118 tokens: without `short_rate`, an example ends with its document or is full
    assert lengths[1].mean() < 0.8 * lengths[0].mean()
    assert lengths[1].min() >= 4


def test_texts_are_truncated_at_both_ends(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [[120], [120]])
    fronts = [
        texts(batch)[0][0] - 5 - 120 * i
        for number in range(50)
        for i, batch in enumerate(
            unpadded_examples(PretrainingExamples(sentences, tokenizer, max_length=43).epoch(number))
        )
    ]
    assert len(fronts) == 100
    assert is_near_expected(sum(fronts), 100 * 100, 0.5)  # 100 of the 120 are truncated


def test_a_sentence_longer_than_an_example_is_truncated(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [[500], [3, 500], [1]])
    for next_sentence in (True, False):
        epoch = PretrainingExamples(sentences, tokenizer, max_length=5, next_sentence=next_sentence).epoch(0)
        assert {length for (length,) in epoch.lengths.tolist()} <= {3, 4, 5}
        assert all(texts(batch)[0] for batch in unpadded_examples(epoch))


def test_an_example_does_not_depend_on_its_batch(uneven) -> None:
    sentences, tokenizer = uneven
    epoch = PretrainingExamples(sentences, tokenizer, max_length=40).epoch(3)
    order = np.random.default_rng(1).permutation(len(epoch.lengths))
    whole = epoch.fetch(order)
    assert whole.tokens_BT.shape[1] == epoch.lengths.max()
    for row, i in enumerate(order):
        length, batch = int(epoch.lengths[i, 0]), epoch.fetch(np.array([i]))
        for name, filler in (("tokens_BT", PAD_ID), ("segments_BT", 0), ("words_BT", IGNORED)):
            of_whole = getattr(whole, name)[row]
            assert torch.equal(of_whole[:length], getattr(batch, name)[0])
            assert (of_whole[length:] == filler).all()
        assert batch.is_padding_BT is None
        assert torch.equal(whole.is_padding_BT[row], torch.arange(whole.tokens_BT.size(1)) >= length)
        assert whole.follows_B[row] == batch.follows_B[0]


def test_epochs_are_reproducible_and_differ_from_each_other(uneven) -> None:
    sentences, tokenizer = uneven

    def contents(seed: int, number: int) -> list[tuple]:
        epoch = PretrainingExamples(sentences, tokenizer, max_length=40, seed=seed).epoch(number)
        return [
            tuple(tuple(tensor.flatten().tolist()) for tensor in batch.tensors().values())
            for batch in unpadded_examples(epoch)
        ]

    first = contents(1, 0)
    assert contents(1, 0) == first
    for other in (contents(1, 1), contents(2, 0)):
        assert len(set(other) & set(first)) < 0.1 * len(first)
    plans = [
        PretrainingExamples(sentences, tokenizer, max_length=40, seed=seed).epoch(number).begins.tobytes()
        for seed, number in ((1, 0), (1, 1), (2, 0), (2, 1))
    ]
    assert len(set(plans)) == 4


def test_batches_resume_from_a_saved_position(uneven) -> None:
    sentences, tokenizer = uneven

    def batches() -> Batches[PretrainingBatch]:
        return Batches(PretrainingExamples(sentences, tokenizer, max_length=40), tokens=2000, seed=1)

    never_stopped, stopped = batches(), batches()
    for _ in range(len(never_stopped.plan(0)) + 3):
        next(never_stopped)
    stopped.position = never_stopped.position
    assert stopped.position.epoch == 1
    expected, found = next(never_stopped), next(stopped)
    assert all(torch.equal(tensor, getattr(found, name)) for name, tensor in expected.tensors().items())


def test_next_sentence_prediction_needs_several_documents(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [[3, 4, 5]])
    with pytest.raises(ValueError, match="one document.*more files.*data.split"):
        PretrainingExamples(sentences, tokenizer)
    (batch,) = unpadded_examples(PretrainingExamples(sentences, tokenizer, short_rate=0, next_sentence=False).epoch(0))
    assert texts(batch) == (list(range(5, 17)), [])


def test_empty_text_is_refused(tmp_path) -> None:
    sentences, tokenizer = corpus(tmp_path, [])
    assert len(sentences) == 0
    with pytest.raises(ValueError, match="there is too little text"):
        PretrainingExamples(sentences, tokenizer)


def test_too_small_a_maximum_length_is_refused(even) -> None:
    with pytest.raises(ValueError, match="4 tokens are too short.* at least 5"):
        PretrainingExamples(*even, max_length=4)


def test_empty_sentences_and_documents_are_skipped(tmp_path) -> None:
    texts = [["", "7 8"], ["", " "], [], ["9", ""]]
    sentences = encoded(lambda: iter(texts), "key", Numbers(10), tmp_path)
    assert sentences.tokens.tolist() == [7, 8, 9]
    assert sentences.begins.tolist() == [0, 2, 3]
    assert sentences.documents.tolist() == [0, 1, 2]


def test_encoded_text_is_cached_by_key_and_tokenizer(tmp_path) -> None:
    reads = []

    def read():
        reads.append(1)
        return iter([["7 8"], ["9"]])

    for key, vocab_size in (("a", 10), ("a", 10), ("b", 10), ("b", 11)):
        assert len(encoded(read, key, Numbers(vocab_size), tmp_path)) == 2
    assert len(reads) == len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["tokens.bin", "sentences.npy", "documents.npy"])
@pytest.mark.parametrize("damage", ["emptied", "shortened", "exchanged", "lost"])
def test_damaged_cache_files_are_encoded_again(tmp_path, name, damage) -> None:
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
    with pytest.warns(UserWarning, match=f"the cache is damaged and is created again: .*{name}: "):
        sentences, _ = corpus(tmp_path, [[3, 4], [5]])
    assert sentences.tokens.tolist() == list(range(5, 17))
    assert (folder / name).read_bytes() == data


def test_the_share_of_a_process_without_examples_has_no_targets(uneven) -> None:
    share = PretrainingExamples(*uneven, max_length=40).epoch(0).fetch(np.arange(2)).share(rank=2, world=3)
    assert share.tokens_BT.shape == share.words_BT.shape
    assert len(share.tokens_BT) == 1
    assert (share.words_BT == IGNORED).all()
    assert share.follows_B.tolist() == [IGNORED]


def test_the_text_can_be_restored_from_tokens_and_targets(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("= Sea =\nThe lobster walks. It\nwalked backwards.\n= Land =\nThe snail is slow.\n")
    read = list(documents(tmp_path / "a.txt", "heading"))
    tokenizer = WordPiece.train(60, [sentence for document in read for sentence in document])
    sentences = encoded(lambda: iter(read), "key", tokenizer, tmp_path)
    examples = PretrainingExamples(sentences, tokenizer, short_rate=0, next_sentence=False, whole_words=True)
    found = []
    for batch in unpadded_examples(examples.epoch(0)):
        is_target_BT = batch.words_BT != IGNORED
        tokens = torch.where(is_target_BT, batch.words_BT, batch.tokens_BT)[0].tolist()
        found.append(tokenizer.decode([tokens])[0].replace(" ", ""))
        assert tokenizer.pieces(tokens)[:: len(tokens) - 1] == ["[CLS]", "[SEP]"]
        # a piece that continues a word is a target if the piece before it is
        is_continuation = torch.tensor([piece.startswith("##") for piece in tokenizer.pieces(tokens)])
        assert is_continuation.any()
        assert torch.equal(is_target_BT[0, 1:][is_continuation[1:]], is_target_BT[0, :-1][is_continuation[1:]])
    assert found == ["thelobsterwalks.itwalkedbackwards.", "thesnailisslow."]
