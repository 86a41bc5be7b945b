"""BLEU and chrF by sacreBLEU, with the signatures that make scores comparable, and exact matches."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RegardError


@dataclass(frozen=True)
class TranslationScores:
    """Scores from 0 to 100 of translations against one reference each."""

    bleu: float
    chrf: float
    exact: float
    """Percentage of translations identical to the reference."""
    sentences: int
    bleu_signature: str
    chrf_signature: str


def score(translations: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> TranslationScores:
    """All scores of a list of translations; with `lowercase`, BLEU and chrF ignore case, as in some papers."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF  # a late import, so that translating does not wait for it

    if len(translations) != len(references):
        raise RegardError(
            f"got {len(translations):,} translations and {len(references):,} references; they must match line by line"
        )
    if not references:
        raise RegardError("there is nothing to score")
    bleu, chrf = BLEU(lowercase=lowercase), CHRF(lowercase=lowercase)
    return TranslationScores(
        bleu=bleu.corpus_score(list(translations), [list(references)]).score,
        chrf=chrf.corpus_score(list(translations), [list(references)]).score,
        exact=100 * sum(one == other for one, other in zip(translations, references, strict=True)) / len(references),
        sentences=len(references),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def signatures() -> dict[str, str]:
    """The sacreBLEU signatures of the scores, by name."""
    # sacreBLEU has signatures only after it has scored something
    scores = score([""], [""])
    return {"bleu_signature": scores.bleu_signature, "chrf_signature": scores.chrf_signature}


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same test set by one metric, with a paired bootstrap (Koehn 2004)."""

    metric: str
    first: float
    second: float
    p_value: float
    """Probability of a difference at least as large if the systems were equally good."""
    signature: str


def compare(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], samples: int = 1000
) -> list[Comparison]:
    """Compares two lists of translations by BLEU and chrF, with significance tests."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest, Result

    if not references:
        raise RegardError("there is nothing to compare")
    first, second = list(first), list(second)
    systems: list[tuple[str, Sequence[str]]] = [("first", first), ("second", second)]
    metrics = {"BLEU": BLEU(references=[list(references)]), "chrF": CHRF(references=[list(references)])}
    test = PairedTest(systems, metrics, None, test_type="bs", n_samples=samples)
    signatures, results = test()
    comparisons = []
    for name, signature in signatures.items():
        one, other = (result for result in results[name] if isinstance(result, Result))
        # sacreBLEU would report a significant difference between identical translations
        p_value = 1.0 if first == second else float(other.p_value or 0)
        comparisons.append(Comparison(name, one.score, other.score, p_value, str(signature)))
    return comparisons
