import pytest

from regard.evaluation.bleu import Translated, compare, score


def test_bleu_is_100_for_a_perfect_translation_and_low_for_a_useless_one() -> None:
    references = ["the child picked up a small stone", "we are eating bread"]
    perfect = score(references, references)
    assert (perfect.bleu, perfect.chrf, perfect.exact) == pytest.approx((100, 100, 100))
    assert perfect.sentences == 2
    useless = score(["x", "y"], references)
    assert useless.exact == 0
    assert useless.bleu < 1


def test_the_sacrebleu_signature_describes_the_metric() -> None:
    scores = score(["one two three four"], ["one two three five"])
    assert scores.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert scores.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_bleu_is_case_sensitive_by_default() -> None:
    translations, references = ["Ein Hund läuft hier."], ["ein Hund läuft hier."]
    assert score(translations, references).bleu < 100
    folded = score(translations, references, lowercase=True)
    assert folded.bleu == pytest.approx(100)
    assert "case:lc" in folded.bleu_signature


def test_uneven_and_empty_lists_are_errors() -> None:
    with pytest.raises(ValueError, match="2 translations and 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="nothing to score"):
        score([], [])


def test_only_a_clear_difference_is_significant() -> None:
    references = [f"sentence number {i} has some words in it" for i in range(60)]
    worse = [text if i % 2 else "nothing like it at all" for i, text in enumerate(references)]
    given = [Translated(texts, references) for texts in (references, worse, references)]
    for comparison, name in zip(compare(given, samples=200), ("BLEU", "chrF2"), strict=True):
        assert comparison.metric == name
        assert comparison.scores[::2] == pytest.approx((100, 100))
        assert comparison.scores[1] < 80
        first, of_worse, of_same = comparison.p_values
        assert first is None
        assert of_worse is not None
        assert of_worse < 0.02
        assert of_same == 1.0
        assert "bs:200" in comparison.signature


def test_equal_scores_of_different_translations_are_not_significant() -> None:
    references = ["a red stone", "a green stone"] * 20
    given = [Translated(texts, references) for texts in (["x"] * 40, ["y"] * 40)]
    for comparison in compare(given, samples=100):
        assert comparison.scores[0] == comparison.scores[1]
        assert comparison.p_values == (None, 1.0)


def test_letter_case_is_ignored_on_request() -> None:
    references = ["ein Hund läuft hier"] * 3
    given = [Translated(["Ein Hund läuft hier"] * 3, references, lowercase=True)] * 2
    assert compare(given, samples=100)[0].scores == pytest.approx((100, 100))
