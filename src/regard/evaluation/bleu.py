"""BLEU and chrF by sacreBLEU, with the signatures that make a score comparable, and exact matches."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF


@dataclass(frozen=True)
class Scores:
    """Scores from 0 to 100 of translations against one reference each."""

    bleu: float
    chrf: float
    exact: float
    """Share of translations that are the reference to the letter."""
    sentences: int
    bleu_signature: str
    chrf_signature: str


def score(translations: Sequence[str], references: Sequence[str]) -> Scores:
    """All scores of a list of translations."""
    if len(translations) != len(references):
        raise ValueError(f"{len(translations):,} translations and {len(references):,} references; each needs its own")
    if not references:
        raise ValueError("there is nothing to score")
    bleu, chrf = BLEU(), CHRF()
    return Scores(
        bleu=bleu.corpus_score(list(translations), [list(references)]).score,
        chrf=chrf.corpus_score(list(translations), [list(references)]).score,
        exact=100 * sum(one == other for one, other in zip(translations, references, strict=True)) / len(references),
        sentences=len(references),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )
