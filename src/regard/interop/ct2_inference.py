"""Models that run on CTranslate2: they translate and embed like ours, and exports are checked against our models.

Beam search is CTranslate2's own: with a beam of one it finds the same text as ours, with a wider beam it may find
another one. Inspection is left to torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from ctranslate2 import StorageView
from torch import Tensor

from regard.blocks.masks import no_padding
from regard.codecs.subword import BEGIN, END, SubwordTokenizer
from regard.codecs.wordpiece import WordPiece
from regard.data.batches import pad, padding
from regard.data.sequences import TextBatch
from regard.decoding.beam import Beam
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import Sampling
from regard.errors import RegardError
from regard.explain.trace import Inputs, Trace
from regard.tasks.completion import Completer, CompletionTask
from regard.tasks.embedding import Embedder, Join, pooled
from regard.tasks.translation import TranslationTask, Translator

TOLERANCE, TOLERANCE_8_BITS = 1e-3, 0.1  # difference of log-probabilities: maximum in float32, mean in 8 bits
MIN_COSINE, MIN_COSINE_8_BITS = 1 - 1e-5, 0.99  # of our vector of a text and CTranslate2's
SAMPLES, MAX_TOKENS = 8, 16  # number of random texts that an export is checked with, and their maximum length


@contextmanager
def engine_errors(folder: Path) -> Iterator[None]:
    """Turns errors of CTranslate2, such as those of a damaged export, into a `RegardError`."""
    try:
        yield
    except (RuntimeError, ValueError, KeyError) as error:
        raise RegardError(
            f"{folder}: CTranslate2 cannot use this export ({error}); create it again: regard convert MODEL ct2:FOLDER"
        ) from None


class Ct2Translator(Translator):
    """A translator that runs on CTranslate2.

    Args:
        model: our model; only its config is used, so it needs no weights.
        original: loads our own translator, for what CTranslate2 cannot do.
    """

    def __init__(
        self,
        folder: Path,
        model: Any,
        source: SubwordTokenizer,
        target: SubwordTokenizer,
        original: Callable[[], Translator],
    ) -> None:
        self.model, self.source, self.target, self._original = model, source, target, original
        self._folder = folder
        with engine_errors(folder):
            self._engine = ctranslate2.Translator(str(folder), intra_threads=torch.get_num_threads())
        config = model.config
        self._names = source.names(config.source_vocab_size or config.vocab_size), target.names(config.vocab_size)
        self._ids = {name: token for token, name in enumerate(self._names[1])}

    @property
    def _room(self) -> int:
        """The maximum number of tokens in a sentence: only rotary positions are not in a table of limited length."""
        return super()._room if self.model.config.positions == "rotary" else self.model.config.context - 1

    def _search(
        self,
        how: Beam | Sampling,
        sources: Sequence[Sequence[int]],
        max_length: Sequence[int],
        starts: Sequence[Sequence[int]],
        scores: bool,
    ) -> list[list[Hypothesis]]:
        if isinstance(how, Sampling):
            raise RegardError(
                "CTranslate2 samples with one seed for all texts, so the samples of one text could not be reproduced "
                "alone; use --engine torch to sample"
            )
        with engine_errors(self._folder):
            found = self._engine.translate_batch(
                self._to_names(0, sources),
                self._to_names(1, starts) if any(starts) else None,
                beam_size=how.width,
                num_hypotheses=how.n_best,
                length_penalty=how.length_penalty,
                max_input_length=0,
                # in a wider beam, an empty hypothesis would take a place, and results would differ from ours more often
                min_decoding_length=0 if how.width == 1 else 1,
                max_decoding_length=max(max_length),
                return_scores=True,
            )
            hypotheses = [
                (i, tuple(self._ids[name] for name in names[: max_length[i]]), score)
                for i, result in enumerate(found)
                for names, score in zip(result.hypotheses, result.scores, strict=True)
            ]
        logs: Sequence[tuple[float, ...]] = [()] * len(hypotheses)
        if scores:
            logs = self.token_scores([sources[i] for i, _, _ in hypotheses], [tokens for _, tokens, _ in hypotheses])
        results: list[list[Hypothesis]] = [[] for _ in sources]
        for (i, tokens, score), each in zip(hypotheses, logs, strict=True):
            count = (len(tokens) + 1) ** how.length_penalty
            # CTranslate2's own score omits a given prefix and a forced end
            total = sum(each) if scores else score * count
            results[i].append(Hypothesis(tokens, each, total, total / count, truncated=len(tokens) >= max_length[i]))
        return results

    def token_scores(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch_tokens: int = 4096
    ) -> list[tuple[float, ...]]:
        """The log-probability of each token of the targets, end tokens included."""
        with engine_errors(self._folder):
            found = self._engine.score_batch(
                self._to_names(0, sources),
                self._to_names(1, targets),
                max_batch_size=batch_tokens,
                batch_type="tokens",
                max_input_length=0,
            )
        return [tuple(result.log_probs) for result in found]

    def _to_names(self, side: int, sentences: Sequence[Sequence[int]]) -> list[list[str]]:
        names = self._names[side]
        return [[names[token] for token in sentence] for sentence in sentences]

    def _score(self, encoded: Sequence[tuple[Sequence[int], Sequence[int]]], batch_tokens: int) -> list[float]:
        sources, targets = [one for one, _ in encoded], [other for _, other in encoded]
        return [sum(scores) for scores in self.token_scores(sources, targets, batch_tokens)]

    def generate(self, inputs: Inputs) -> Any:
        """The greedy translation of a text after each token, computed by torch."""
        return self._original().generate(inputs)

    def _trace(self, source: Sequence[int], target: Sequence[int]) -> Trace:
        return self._original()._trace(source, target)


class Ct2Embedder(Embedder):
    """An embedder that runs on CTranslate2. Arguments as in `Ct2Translator`."""

    def __init__(self, folder: Path, model: Any, tokenizer: WordPiece, original: Callable[[], Embedder]) -> None:
        self.model, self.tokenizer, self._original = model, tokenizer, original
        self.device = torch.device("cpu")
        self._folder = folder
        with engine_errors(folder):
            self._engine = ctranslate2.Encoder(str(folder), intra_threads=torch.get_num_threads())

    def _vectors(self, batch: TextBatch, layers: Sequence[int], _join: Join) -> Tensor:
        last = self.model.config.layers
        if list(layers) != [last]:
            raise RegardError(
                f"CTranslate2 returns only the last layer, {last}, but layers {list(layers)} were requested; use torch"
            )
        is_padding_BT = no_padding(batch.tokens_BT) if batch.is_padding_BT is None else batch.is_padding_BT
        lengths_B = (~is_padding_BT).sum(1)
        tokens, lengths = (StorageView.from_array(x.int().numpy()) for x in (batch.tokens_BT, lengths_B))
        with engine_errors(self._folder):
            found = self._engine.forward_batch(tokens, lengths, batch.segments_BT.tolist())
        return torch.from_numpy(np.array(found.last_hidden_state))

    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """The trace of a text, computed by torch."""
        return self._original().trace(inputs, target)


# checks


def opened(task: str, folder: Path, model: Any, codecs: Mapping[str, Any], original: Callable[[], Any]) -> Any:
    """An exported model of this task, ready to run on CTranslate2."""
    if task == CompletionTask.name:
        raise RegardError(
            f"{folder}: Regard completes texts with torch only; open this folder with ctranslate2.Generator"
        )
    if task == TranslationTask.name:
        return Ct2Translator(folder, model, codecs["source"], codecs["target"], original)
    return Ct2Embedder(folder, model, codecs["text"], original)


def check(folder: Path, task: str, ours: Any, quantize: str | None) -> str:
    """Compares an export with the original model; returns a summary, or raises `RegardError` if they differ."""
    generator = torch.Generator().manual_seed(1)

    def texts(first: int, last: int, max_length: int) -> list[list[int]]:
        lengths = torch.linspace(1, min(max_length, MAX_TOKENS), SAMPLES).int().tolist()
        return [torch.randint(first, last, (length,), generator=generator).tolist() for length in lengths]

    checks: dict[str, Callable[..., str]] = {
        TranslationTask.name: _check_translator,
        CompletionTask.name: _check_completer,
    }
    chosen: Callable[..., str] = checks.get(task, _check_encoder)
    return chosen(folder, ours, quantize, texts)


def _check_translator(folder: Path, ours: Translator, quantize: str | None, texts: Callable[..., Any]) -> str:
    config = ours.model.config
    fast = Ct2Translator(folder, ours.model, ours.source, ours.target, lambda: ours)
    sources = texts(END + 1, config.source_vocab_size or config.vocab_size, fast._room)
    max_length = [min(2 * len(source) + 20, fast._room) for source in sources]
    how, starts = Beam(BEGIN, END, width=1), [()] * len(sources)
    mine = [found for (found,) in ours._search(how, sources, max_length, starts, True)]
    theirs = [found.tokens for (found,) in fast._search(how, sources, max_length, starts, False)]
    logs = fast.token_scores(sources, [found.tokens for found in mine])
    return _comparison(
        quantize, [found.tokens for found in mine] == theirs, [found.token_scores for found in mine], logs
    )


def _check_completer(folder: Path, ours: Completer, quantize: str | None, texts: Callable[..., Any]) -> str:
    names = ours.tokenizer.names(ours.tokenizer.vocab_size)
    engine = ctranslate2.Generator(str(folder), intra_threads=torch.get_num_threads())
    tokens = MAX_TOKENS if ours.model.limit is None else min(MAX_TOKENS, ours.model.limit // 2)
    prompts = texts(0, ours.tokenizer.vocab_size, tokens)
    mine = [ours._best(prompt, tokens)[0] for prompt in prompts]
    target = [[token for token in found.tokens if token != ours._end] for found in mine]
    found = engine.generate_batch(
        [[names[token] for token in prompt] for prompt in prompts],
        max_batch_size=1,  # in a batch, tokens of longer prompts beyond the shortest would count as generated
        max_length=tokens,
        include_prompt_in_result=False,
    )
    read = [[names[token] for token in (*prompt, *rest)] for prompt, rest in zip(prompts, target, strict=True)]
    logs = [
        result.log_probs[len(prompt) - 1 :]
        for prompt, result in zip(prompts, engine.score_batch(read, max_input_length=0), strict=True)
    ]
    scores = [completion.token_log_probabilities[: len(rest)] for completion, rest in zip(mine, target, strict=True)]
    return _comparison(quantize, target == [result.sequences_ids[0] for result in found], scores, logs)


def _comparison(quantize: str | None, is_same: bool, mine: Sequence[Any], theirs: Sequence[Any]) -> str:
    """Compares the log-probabilities of the tokens of our model; `is_same`: both models generated the same tokens."""
    pairs = [pair for some in zip(mine, theirs, strict=True) for pair in zip(*some, strict=True)]
    differences = torch.tensor([one - other for one, other in pairs])
    if quantize is None and not is_same:
        raise RegardError("CTranslate2 and the original model generate different tokens; the export is refused")
    sizes = differences.abs()
    found, bound = (sizes.max(), TOLERANCE) if quantize is None else (sizes.mean(), TOLERANCE_8_BITS)
    amount = f"up to {found:.2g}" if quantize is None else f"{found:.2g} on average"
    if not found <= bound:
        raise RegardError(
            f"the log-probabilities per token of CTranslate2 and of the original model differ by {amount}, "
            f"more than {bound}; the export is refused"
        )
    which = "same tokens" if is_same else "different tokens in some texts"
    return f"{which}, log-probabilities per token differ by {amount} on {SAMPLES} random texts"


@torch.no_grad()
def _check_encoder(folder: Path, ours: Embedder, quantize: str | None, texts: Callable[..., Any]) -> str:
    config, of = ours.model.config, ours.tokenizer
    fast = Ct2Embedder(folder, ours.model, of, lambda: ours)
    read = [[of.begin, *text, of.end] for text in texts(0, config.vocab_size, config.context - 2)]
    tokens_BT = pad(read, of.pad)
    segments_BT = torch.arange(tokens_BT.size(1)).expand_as(tokens_BT) % config.segments
    batch = TextBatch(tokens_BT, segments_BT, padding([len(text) for text in read]))
    mine_BD, theirs_BD = (
        pooled(model._vectors(batch, [config.layers], "mean"), batch.is_padding_BT, "mean") for model in (ours, fast)
    )
    worst = torch.nn.functional.cosine_similarity(mine_BD, theirs_BD).min().item()
    bound = MIN_COSINE if quantize is None else MIN_COSINE_8_BITS
    if not worst >= bound:
        raise RegardError(
            f"the vectors of CTranslate2 and of the original model have a cosine of {worst:.5f}, less than {bound}; "
            f"the export is refused"
        )
    return f"cosine at least {worst:.5f} on {SAMPLES} random texts"
