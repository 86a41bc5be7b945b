"""Pre-training data of BERT: pairs of texts with masked tokens (Devlin et al. 2018, 3.1 and A.1).

    [CLS] A A A A [SEP] B B B [SEP]

Half of the time B follows A in the text, half of the time it comes from another document. Some of the tokens are
selected for prediction: most of these are replaced by [MASK], some by a random token, and some stay unchanged. The
examples are sampled again in each epoch; they depend only on the seed and the number of the epoch.

The sentences are encoded once, into a folder: `tokens.bin` holds all tokens one after the other, `sentences.npy` the
offset of each sentence in it, `documents.npy` the index of the first sentence of each document. The files are
memory-mapped, so only the offsets and the current batch are in memory.
"""

import warnings
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.codecs.interface import Say
from regard.codecs.wordpiece import INSIDE, WordPiece
from regard.data.batches import IGNORED, Batch, Indices, Lengths, given, pad, padding
from regard.data.cache import cached
from regard.data.corpus import mapped
from regard.data.sequences import fit
from regard.errors import RegardError

ROUNDS = 5  # fixed-point iterations for the rate of unrelated pairs (see _pairs)
MASKED, REPLACED = 0.8, 0.1  # fractions of the selected tokens; the rest stay unchanged


class Sentences:
    """Encoded documents, memory-mapped from a folder; no sentence and no document is empty."""

    def __init__(self, folder: Path) -> None:
        self.tokens = mapped(folder / "tokens.bin")
        self.begins: Indices = np.asarray(np.load(folder / "sentences.npy", mmap_mode="r"))
        self.documents: Indices = np.asarray(np.load(folder / "documents.npy", mmap_mode="r"))
        if self.begins[-1] != len(self.tokens) or self.documents[-1] != len(self):
            raise RegardError(f"{folder}: damaged, its files do not match")

    def __len__(self) -> int:
        return len(self.begins) - 1

    def documents_of(self, sentences: Indices) -> Indices:
        """The document of each of these sentences."""
        return np.searchsorted(self.documents, sentences, side="right") - 1

    def span_end(self, first: Indices, wanted: Indices, min_sentences: int = 1) -> Indices:
        """The end of spans that start at `first`: after `wanted` tokens and `min_sentences`, or with the document."""
        stop = np.searchsorted(self.begins, self.begins[first] + wanted)
        return np.clip(stop, first + min_sentences, self.documents[self.documents_of(first) + 1])


def encoded(
    read: Callable[[], Iterable[list[str]]], key: str, tokenizer: WordPiece, cache: Path, say: Say = warnings.warn
) -> Sentences:
    """The sentences of the documents that `read` returns; encoded once, then read from the cache.

    Args:
        key: a hash of everything that `read` depends on.
        say: reports that the cache is damaged.
    """
    recipe = ["documents", 1, key, tokenizer.to_json()]  # 1: the version of the format
    return cached(cache, "documents", recipe, lambda folder: _encode(read(), tokenizer, folder), Sentences, say)


def _encode(documents: Iterable[list[str]], tokenizer: WordPiece, folder: Path) -> None:
    sentence_begins, document_begins = array("q", [0]), array("q", [0])
    with (folder / "tokens.bin").open("wb") as file:
        for document in documents:
            # a sentence may consist only of characters that the tokenizer removes
            if sentences := [tokens for tokens in tokenizer.encode(document) if tokens]:
                file.write(np.fromiter(chain.from_iterable(sentences), np.uint32).tobytes())
                for tokens in sentences:
                    sentence_begins.append(sentence_begins[-1] + len(tokens))
                document_begins.append(document_begins[-1] + len(sentences))
    np.save(folder / "sentences.npy", np.array(sentence_begins, np.int64))
    np.save(folder / "documents.npy", np.array(document_begins, np.int64))


@dataclass(frozen=True)
class PretrainingBatch(Batch):
    """Texts, or pairs of texts, with masked tokens."""

    targets: ClassVar = {"words_BT": IGNORED, "follows_B": IGNORED}
    tokens_BT: Tensor
    segments_BT: Tensor
    """0 for the first text and padding, 1 for the second text."""
    words_BT: Tensor
    """The original token where it is a target, else `IGNORED`."""
    follows_B: Tensor
    """0 if the second text follows the first, 1 if not."""
    is_padding_BT: Tensor | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return given(self.tokens_BT, self.segments_BT, self.is_padding_BT)


class PretrainingExamples:
    """A dataset of pre-training examples, which are sampled again in each epoch.

    Args:
        max_length: maximum number of tokens of an example, [CLS] and [SEP]s included.
        mask_rate: fraction of the tokens to predict.
        whole_words: whole word masking: the subwords of a word are selected together.
        short_rate: fraction of the examples that are made shorter, so that the model also sees short texts.
        next_sentence: examples are pairs of texts for next-sentence prediction; otherwise they are single texts.
    """

    def __init__(
        self,
        sentences: Sentences,
        tokenizer: WordPiece,
        *,
        max_length: int = 128,
        mask_rate: float = 0.15,
        whole_words: bool = False,
        short_rate: float = 0.1,
        next_sentence: bool = True,
        seed: int = 1,
    ) -> None:
        self.sentences, self.tokenizer, self.masking = sentences, tokenizer, Masking(tokenizer, mask_rate, whole_words)
        self.max_length, self.short_rate, self.next_sentence, self.seed = max_length, short_rate, next_sentence, seed
        self.special_count = 3 if next_sentence else 2
        if max_length < self.special_count + 2:
            raise RegardError(
                f"examples of {max_length} tokens are too short for the special tokens and two words; "
                f"raise max_length to at least {self.special_count + 2}"
            )
        if not len(sentences):
            raise RegardError("there is too little text for both training and validation; give more text")
        if next_sentence and len(sentences.documents) == 2:
            raise RegardError(
                "all text is one document, but next-sentence prediction needs at least two; "
                "give more files, or set data.split = 'heading' or 'blank', or data.next_sentence = false"
            )

    def epoch(self, number: int) -> "PretrainingEpoch":
        """The examples of an epoch, as spans of tokens; `fetch` builds them."""
        rng = np.random.default_rng([self.seed, number])
        capacity = self.max_length - self.special_count
        begins, ends, follows = (self._pairs if self.next_sentence else self._singles)(capacity, rng)
        one, other = (ends - begins).T
        sizes = np.stack(fit(one, other, capacity), axis=1)
        # excess tokens are dropped one by one, each at random from the front or the back
        begins += rng.binomial(ends - begins - sizes, 0.5)
        return PretrainingEpoch(self, number, begins, sizes, follows)

    def _pairs(self, capacity: int, rng: np.random.Generator) -> tuple[Indices, Indices, Indices]:
        """Where A and B begin, where they end, and whether B follows A.

        As in the paper's own code: of the consecutive sentences that fill an example, A is the first few, and B is the
        rest, or a span of another document. In the latter case, the rest is used again for the next example.
        """
        # Vectorised: a candidate example is sampled for every sentence, as if it began there. Each candidate determines
        # where the next example begins, so the examples of the epoch are found by following these links from the first.
        sentences, everywhere = self.sentences, np.arange(len(self.sentences))
        wanted, stop = self._full_spans(capacity, rng, min_sentences=2)
        middle = everywhere + rng.integers(1, np.maximum(stop - everywhere, 2))
        # B cannot follow A at the end of a document; these pairs are always unrelated, so fewer of the others are
        is_forced, draw, rate = middle == stop, rng.random(len(stop)), 0.5
        for _ in range(ROUNDS):
            is_unrelated = is_forced | (draw < rate)
            first = _follow_links(np.where(is_unrelated, middle, stop))
            forced = is_forced[first].mean()
            rate = max(0.0, 0.5 - forced) / max(0.5, 1 - forced)
        middle, stop, is_unrelated = middle[first], stop[first], is_unrelated[first]
        begins, ends = sentences.begins[np.stack([[first, middle], [middle, stop]])].swapaxes(1, 2)
        missing = wanted[first] - (ends - begins)[:, 0]
        start = self._in_other_documents(first[is_unrelated], rng)
        begins[is_unrelated, 1] = sentences.begins[start]
        ends[is_unrelated, 1] = sentences.begins[sentences.span_end(start, missing[is_unrelated])]
        return begins, ends, is_unrelated.astype(np.int64)

    def _singles(self, capacity: int, rng: np.random.Generator) -> tuple[Indices, Indices, Indices]:
        """The same for single texts: B is empty and the label is ignored."""
        _, stop = self._full_spans(capacity, rng)
        first = _follow_links(stop)
        begins, ends = self.sentences.begins[np.stack([first, stop[first]])]
        return np.stack([begins, ends], axis=1), np.stack([ends, ends], axis=1), np.full(len(first), IGNORED)

    def _full_spans(self, capacity: int, rng: np.random.Generator, min_sentences: int = 1) -> tuple[Indices, Indices]:
        """For an example that begins at each sentence: its desired number of tokens, and the sentence at which it ends.

        Args:
            min_sentences: minimum number of sentences of an example, if its document has that many.
        """
        count = len(self.sentences)
        shorter = rng.integers(2, capacity, count, endpoint=True)
        wanted = np.where(rng.random(count) < self.short_rate, shorter, capacity)
        return wanted, self.sentences.span_end(np.arange(count), wanted, min_sentences)

    def _in_other_documents(self, sentences: Indices, rng: np.random.Generator) -> Indices:
        """For each of these sentences, a random sentence of a random other document."""
        documents = self.sentences.documents
        other = rng.integers(0, len(documents) - 2, len(sentences))
        other += other >= self.sentences.documents_of(sentences)
        return rng.integers(documents[other], documents[other + 1])


def _follow_links(after: Indices) -> Indices:
    """Follows the links `after` from 0 to the end."""
    following, steps, at = after.tolist(), array("q"), 0
    while at < len(following):
        steps.append(at)
        at = following[at]
    return np.array(steps, np.int64)


@dataclass(frozen=True)
class PretrainingEpoch:
    """The examples of an epoch: the token offsets and lengths of the two texts of each."""

    examples: PretrainingExamples
    number: int
    begins: Indices
    sizes: Indices
    follows: Indices

    @property
    def lengths(self) -> Lengths:
        """The number of tokens of each example, [CLS] and [SEP]s included."""
        lengths: Indices = self.sizes.sum(1, keepdims=True) + self.examples.special_count
        return lengths.astype(np.int32)

    def fetch(self, indices: Indices) -> PretrainingBatch:
        """The examples with these indices; the masking of one does not depend on the others."""
        tokens, segments, words = zip(*(self._example(int(index)) for index in indices), strict=True)
        return PretrainingBatch(
            pad(tokens, self.examples.tokenizer.pad),
            pad(segments, 0),
            pad(words, IGNORED),
            torch.from_numpy(self.follows[indices]),
            padding([len(text) for text in tokens]),
        )

    def _example(self, index: int) -> tuple[Indices, Indices, Indices]:
        """Tokens, segments and targets of one example."""
        examples = self.examples
        spans = zip(self.begins[index], self.sizes[index], strict=True)
        one, other = (examples.sentences.tokens[begin : begin + size] for begin, size in spans)
        begin, end = [examples.tokenizer.begin], [examples.tokenizer.end]
        first, second = [begin, one, end], [other, end] if examples.next_sentence else []
        tokens = np.concatenate([*first, *second]).astype(np.int64)
        segments = (np.arange(len(tokens)) >= len(one) + 2).astype(np.int64)
        # index + 1, because to numpy the seed [seed, epoch, 0] equals [seed, epoch], which sampled the epoch's spans
        rng = np.random.default_rng([examples.seed, self.number, index + 1])
        seen, words = examples.masking(tokens, rng)
        return seen, segments, words


class Masking:
    """Selects some of the tokens of a text as targets and replaces most of these by [MASK]."""

    def __init__(self, tokenizer: WordPiece, rate: float, whole_words: bool) -> None:
        self.rate, self.whole_words, self.mask = rate, whole_words, tokenizer.mask
        every = np.arange(tokenizer.vocab_size)
        self.is_special = np.isin(every, list(tokenizer.specials))
        self.ordinary = every[~self.is_special]
        self.continues = np.array([piece.startswith(INSIDE) for piece in tokenizer.pieces(every.tolist())])

    def __call__(self, tokens: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
        """The tokens as the model sees them, and the targets: the original tokens where they were selected."""
        selected = self._selected(tokens, rng)
        draw = rng.random(len(selected))
        is_replaced = (draw >= MASKED) & (draw < MASKED + REPLACED)
        seen, words = tokens.copy(), np.full_like(tokens, IGNORED)
        seen[selected[draw < MASKED]] = self.mask
        seen[selected[is_replaced]] = self.ordinary[rng.integers(len(self.ordinary), size=is_replaced.sum())]
        words[selected] = tokens[selected]
        return seen, words

    def _selected(self, tokens: Indices, rng: np.random.Generator) -> Indices:
        places = np.flatnonzero(~self.is_special[tokens])
        count = max(1, round(self.rate * len(places)))
        if not self.whole_words:
            return rng.permutation(places)[:count]
        is_new = ~self.continues[tokens[places]] | (
            np.diff(places, prepend=-2) > 1
        )  # a word also begins after a special token
        words = np.split(places, np.flatnonzero(is_new)[1:])
        selected: list[int] = []
        for i in rng.permutation(len(words)):
            # the first word is always selected, so that there is a target; others only if they fit
            if not selected or len(selected) + len(words[i]) <= count:
                selected += words[i].tolist()
        return np.array(selected, np.int64)
