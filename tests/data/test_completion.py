import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.codecs.gpt2 import ByteBpe, CharacterTokenizer
from regard.config import parse
from regard.data import completion
from regard.data.batches import IGNORED, Batches
from regard.data.completion import FileSlice, TextConfig, Windows, encoded, pieces, spread

WORDS = "To be, or not to be: that's the question.\n\nWhether 'tis nobler  in the mind, 2023!\n"
BYTE_PAIRS = ByteBpe.train(300, [WORDS])
# runs of spaces are single tokens here, so that a split between them would change the tokens
SPACED = ByteBpe.train(300, [f"a{one}{other}{third}b" for one in " \n\t" for other in " \n" for third in " \n"] * 9)


def config(*names: object, **changes: Any) -> TextConfig:
    return parse(TextConfig, {"text": [str(name) for name in names], **changes})


def read(parts: list[FileSlice]) -> list[str]:
    return ["".join(part.read()) for part in parts]


def text_of(count: int) -> np.ndarray:
    """A text in which each token is its position."""
    return np.arange(count, dtype=np.uint32)


# windows


@given(st.integers(1, 12), st.integers(1, 100), st.integers(0, 5), st.integers(0, 5))
def test_each_token_is_a_target_once_per_epoch_except_at_the_ends(context, more, seed, number) -> None:
    count = context + more
    epoch = Windows(text_of(count), context, seed).epoch(number)
    batch = epoch.fetch(np.arange(len(epoch.lengths)))
    assert batch.tokens_BT.shape == batch.next_BT.shape == (len(epoch.lengths), context)
    assert (batch.next_BT == batch.tokens_BT + 1).all()  # the token that comes after it
    targets = batch.next_BT.flatten().tolist()
    assert targets == list(range(targets[0], targets[-1] + 1))
    assert 1 <= targets[0] <= context
    assert count - context <= targets[-1] < count


def test_epochs_are_reproducible_and_differ_from_each_other() -> None:
    firsts = [int(Windows(text_of(1000), 50, seed=3).epoch(number).begins[0]) for number in (0, 0, 1, 2, 3)]
    assert firsts[0] == firsts[1]
    assert len(set(firsts)) > 2
    drawn = {int(Windows(text_of(1000), 4, seed=1).epoch(number).begins[0]) for number in range(40)}
    assert drawn == {0, 1, 2, 3}


def test_batches_are_limited_by_examples_and_by_tokens() -> None:
    examples = Windows(text_of(1001), 10, seed=1)
    sizes = [len(batch.tokens_BT) for batch in Batches(examples, tokens=4096, seed=1, size=12).epoch(0)]
    assert max(sizes) == 12
    assert sum(sizes) in (99, 100)
    assert max(len(batch.tokens_BT) for batch in Batches(examples, tokens=45, seed=1).epoch(0)) == 4


def test_the_share_of_a_process_without_examples_has_no_targets() -> None:
    batch = spread(text_of(11), 10).fetch(np.array([0]))
    assert (batch.share(1, 2).next_BT == IGNORED).all()


@given(st.integers(1, 9), st.integers(1, 300), st.integers(1, 200))
def test_validation_windows_are_evenly_spread_over_the_text(context, more, most) -> None:
    tokens = text_of(context + more)
    begins = spread(tokens, context, most).begins
    assert begins[0] == 0
    assert (begins % context == 0).all()
    assert (np.diff(begins) > 0).all()
    assert begins[-1] + context < len(tokens)
    assert len(begins) == min((len(tokens) - 1) // context, max(1, most // context))
    if len(begins) > 1:  # as far apart as possible
        assert np.ptp(np.diff(begins)) <= context


def test_a_text_shorter_than_a_window_is_an_error() -> None:
    message = r"the text has 64 tokens, but a window of 64 and .*lower data\.max_length"
    with pytest.raises(ValueError, match=message):
        Windows(text_of(64), 64, seed=1)
    with pytest.raises(ValueError, match=message):
        spread(text_of(64), 64)
    assert len(Windows(text_of(65), 64, seed=1).epoch(0).begins) == len(spread(text_of(65), 64).begins) == 1


# text


@given(st.lists(st.text(st.sampled_from("abc \n"), max_size=30), min_size=1, max_size=4))
def test_the_last_tenth_of_the_text_is_held_out_for_validation(tmp_path_factory, texts) -> None:
    folder = tmp_path_factory.mktemp("text")
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
    train, valid = config(folder).parts()
    whole = "".join(texts)
    truncated = int(0.9 * len(whole))
    assert "".join(read(train)) == whole[:truncated]
    assert "".join(read(valid)) == whole[truncated:]
    assert all(read(train) + read(valid))


def test_white_space_is_read_unchanged(tmp_path: Path) -> None:
    text = "\n\n  é\u2028\x0c\r one \n\ttwo\n\n\nlast, without an end "
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "b.txt").write_bytes(text.replace("\n", "\r\n").encode())
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(text.encode()))
    for path in tmp_path.iterdir():
        train, valid = config(path).parts()
        assert "".join(read(train) + read(valid)) == text


def test_validation_files_are_not_trained_on(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    train, valid = config(tmp_path, valid=str(tmp_path / "b.txt")).parts()
    assert (read(train), read(valid)) == (["a", "c"], ["b"])


def test_validation_files_and_links_are_recognised_by_any_path(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    (tmp_path / "d.txt").symlink_to(tmp_path / "a.txt")
    train, valid = config(tmp_path, valid=str(tmp_path / ".." / tmp_path.name / "b.txt")).parts()
    assert (read(train), read(valid)) == (["a", "c"], ["b"])


def test_invalid_utf_8_is_reported_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\n\xe9t\xe9\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2: not UTF-8 \(bytes e9"):
        config(tmp_path).parts()


# tokens


@example("a \n\nb", 1)
@given(st.text(st.sampled_from("ab1.' \t\n\u00a0\u2003\x1f\x85é"), max_size=60), st.integers(1, 9))
def test_chunks_have_the_tokens_of_the_whole_text(text, size) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completion, "CHUNK", size)
        found = list(pieces(text.splitlines(keepends=True)))
    assert "".join(found) == text
    (whole,) = SPACED.encode([text])
    assert [token for tokens in SPACED.encode(found) for token in tokens] == whole


def test_chunks_are_of_about_the_given_length() -> None:
    found = list(pieces([WORDS] * 5000))
    assert len(found) > 5
    assert all(completion.CHUNK <= len(piece) < completion.CHUNK + 20 for piece in found[:-1])


def test_files_are_separated_by_the_end_token(tmp_path: Path) -> None:
    for name, text in (("a", "to be"), ("b", ""), ("c", "or not\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    parts, _ = config(tmp_path, valid=__file__).parts()
    tokens = encoded(parts, "key", BYTE_PAIRS, tmp_path / "cache")
    one, other = BYTE_PAIRS.encode(["to be", "or not\n"])
    assert tokens.tolist() == [*one, BYTE_PAIRS.end, *other]
    characters = CharacterTokenizer.learn([WORDS])
    assert characters.end is None
    (expected,) = characters.encode(["to be\nor not\n"])
    assert encoded(parts, "key", characters, tmp_path / "cache").tolist() == expected


def test_tokens_are_cached_and_encoded_again_if_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WORDS)
    parts = [FileSlice(tmp_path / "a.txt", 0, 20)]
    first = encoded(parts, "key", BYTE_PAIRS, tmp_path / "cache").tolist()
    (tmp_path / "a.txt").write_text("other")
    assert encoded(parts, "key", BYTE_PAIRS, tmp_path / "cache").tolist() == first
    (path,) = tmp_path.glob("cache/*/tokens.bin")
    path.write_bytes(path.read_bytes()[:-4])
    (tmp_path / "a.txt").write_text(WORDS)
    said: list[str] = []
    assert encoded(parts, "key", BYTE_PAIRS, tmp_path / "cache", said.append).tolist() == first
    assert said == [f"the cache is damaged and is created again: {path}: damaged, its checksum is wrong"]
    other = encoded([FileSlice(tmp_path / "a.txt", 0, 10)], "key", BYTE_PAIRS, tmp_path / "cache").tolist()
    assert other != first
