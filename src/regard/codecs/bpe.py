"""Byte-pair encoding, written to be read: the same tokens as `gpt2.ByteBpe`, in a few lines of Python.

A text is split into words, and words into bytes. Learning merges the most frequent pair of adjacent tokens into a new
token, and repeats this; encoding applies the learned merges in the same order.

    pairs = learn(3, [b"low lower lowest"])     # l + o, lo + w, and the space before it: " " + low
    encode(b" lower", pairs)                    # [258, 68, 81]: " low", "e", "r"
    decode([258, 68, 81], pairs)                # b" lower"

Tokens 0 to 255 are the bytes, token 256 is the first merged pair, token 257 the second. There is no end-of-document
token; `gpt2.ByteBpe` adds one after these.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tokenizers import Regex, pre_tokenizers

Pair = tuple[int, int]
Pairs = Sequence[Pair]

# In GPT-2's vocabulary, bytes that are a visible Latin-1 character come first; token 0 is "!", token 220 the space.
BYTES = sorted(range(256), key=lambda byte: (byte == ord(" ") or not chr(byte).isprintable(), byte))
NUMBERS = {byte: number for number, byte in enumerate(BYTES)}

# GPT-2's pre-tokenization: English contractions; letters, digits, or other symbols, each with the space before it; and
# whitespace, except the last space before a word. Python's `re` lacks the classes \p{L} (letters) and \p{N} (digits).
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SPLIT = pre_tokenizers.Split(Regex(WORDS), "isolated")


def split(text: bytes) -> list[bytes]:
    """The words of a text; pairs are never merged across word boundaries.

    A text may be any bytes. Those that are not UTF-8 count as symbols.
    """
    decoded = text.decode("utf-8", "surrogateescape")  # invalid bytes become surrogates, which can be encoded again
    printable = re.sub(r"[\udc80-\udcff]", "\ufffd", decoded)
    spans = [span for _, span in _SPLIT.pre_tokenize_str(printable)]
    return [decoded[begin:end].encode("utf-8", "surrogateescape") for begin, end in spans]


def join(tokens: Iterable[int], pair: Pair, joined: int) -> list[int]:
    """Merges every occurrence of a pair into the token `joined`, from left to right."""
    result: list[int] = []
    for token in tokens:
        if result and (result[-1], token) == pair:
            result[-1] = joined
        else:
            result.append(token)
    return result


def learn(count: int, texts: Iterable[bytes]) -> list[Pair]:
    """Learns at most `count` merges, in order.

    Each is the most frequent pair after the previous merges; overlapping pairs count, so `a a a` has `a a` twice. Ties
    are broken by the lowest left token id, then by the lowest right one. The library `tokenizers` does the same.
    """
    words = Counter(tuple(NUMBERS[byte] for byte in word) for text in texts for word in split(text))
    pairs: list[Pair] = []
    while len(pairs) < count:
        counts: Counter[Pair] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                counts[pair] += times
        if not counts:
            break  # every word is one token
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        words = Counter({tuple(join(word, best, 256 + len(pairs))): times for word, times in words.items()})
        pairs.append(best)
    return pairs


def encode(text: bytes, pairs: Pairs) -> list[int]:
    """The tokens of a text: in each word, the pair that was learned first is merged first."""
    joined = {pair: number for number, pair in enumerate(pairs, start=256)}
    tokens = []
    for word in split(text):
        part = [NUMBERS[byte] for byte in word]
        while known := joined.keys() & pairwise(part):
            first = min(known, key=joined.__getitem__)
            part = join(part, first, joined[first])
        tokens += part
    return tokens


def decode(tokens: Iterable[int], pairs: Pairs) -> bytes:
    """The bytes of tokens, identical to the original text."""
    spelled = [bytes([byte]) for byte in BYTES]
    for left, right in pairs:
        spelled.append(spelled[left] + spelled[right])
    return b"".join(spelled[token] for token in tokens)
