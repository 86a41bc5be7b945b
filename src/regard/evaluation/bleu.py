"""BLEU and chrF by sacreBLEU, with the signatures that make scores comparable, and exact matches."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RegardError
from regard.evaluation.comparison import Comparison


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
class Translated:
    """The translations of a test set by a model."""

    translations: Sequence[str]
    references: Sequence[str]
    lowercase: bool = False
    """Compare in lower case."""


def compare(models: Sequence[Translated], samples: int = 1000) -> list[Comparison]:
    """Compares translations with those of the first model by BLEU and chrF, with paired bootstrap (Koehn 2004)."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest, Result

    references, lowercase = [list(models[0].references)], models[0].lowercase
    if not references[0]:
        raise RegardError("there is nothing to compare")
    systems: list[tuple[str, Sequence[str]]] = [(f"{i}", list(each.translations)) for i, each in enumerate(models)]
    metrics = {
        "BLEU": BLEU(references=references, lowercase=lowercase),
        "chrF": CHRF(references=references, lowercase=lowercase),
    }
    signatures, results = PairedTest(systems, metrics, None, test_type="bs", n_samples=samples)()
    comparisons = []
    for name, signature in signatures.items():
        first, *others = (result for result in results[name] if isinstance(result, Result))
        # for equal scores, sacreBLEU reports a significant difference
        p_values = (1.0 if other.score == first.score else float(other.p_value or 0) for other in others)
        scores = tuple(result.score for result in (first, *others))
        comparisons.append(Comparison(name, scores, (None, *p_values), signature=str(signature)))
    return comparisons
