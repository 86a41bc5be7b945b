import pytest

from regard.evaluation.bleu import score


def test_a_perfect_translation_and_a_useless_one() -> None:
    references = ["the child picked up a small stone", "we are eating bread"]
    perfect = score(references, references)
    assert (perfect.bleu, perfect.chrf, perfect.exact) == pytest.approx((100, 100, 100))
    assert perfect.sentences == 2
    useless = score(["x", "y"], references)
    assert useless.exact == 0
    assert useless.bleu < 1


def test_the_signature_says_how() -> None:
    scores = score(["one two three four"], ["one two three five"])
    assert scores.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert scores.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_uneven_lists_and_empty_ones_are_named() -> None:
    with pytest.raises(ValueError, match="2 translations and 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="nothing to score"):
        score([], [])
