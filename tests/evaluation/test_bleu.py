import pytest

from regard.evaluation.bleu import compare, score


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
    for comparison, name in zip(compare(references, worse, references, samples=200), ("BLEU", "chrF2"), strict=True):
        assert comparison.metric == name
        assert comparison.first == pytest.approx(100)
        assert comparison.second < 80
        assert comparison.p_value < 0.02
        assert "bs:200" in comparison.signature
    assert all(comparison.p_value > 0.5 for comparison in compare(worse, worse, references, samples=200))
