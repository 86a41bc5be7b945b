import numpy as np
import pytest
import torch
from torch.nn import functional as F

from helpers import assert_same
from regard.data.labelled import Labelled
from regard.data.tables import Example
from regard.models.heads import ClassificationHead, RegressionHead
from regard.tasks.classification import Classifier, answers, loss
from texts import TEXTS, TOKENIZER, bert

CLASSIFIER = Classifier(bert(ClassificationHead(labels=("bad", "good", "so so"))), TOKENIZER)
RATER = Classifier(bert(RegressionHead()), TOKENIZER)


def test_predictions_do_not_depend_on_the_batch() -> None:
    seconds = [None, "bread", None, None, "food"]
    predictions = CLASSIFIER.classify(TEXTS, seconds, batch_tokens=30)
    for text, second, prediction in zip(TEXTS, seconds, predictions, strict=True):
        (alone,) = CLASSIFIER.classify([text], [second])
        assert alone.label == prediction.label == max(prediction.probabilities, key=prediction.probabilities.get)
        assert alone.value == pytest.approx(prediction.value, abs=1e-12)
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
    assert CLASSIFIER.classify([" ".join(["dog"] * 99)])[0].truncated
    assert RATER.classify(["dog"])[0].label is None


def test_the_loss_is_summed_over_labelled_texts() -> None:
    examples = [Example(text, None, label) for text, label in zip(TEXTS, "abcab", strict=True)]
    batch = Labelled(TOKENIZER, examples, "abc", max_length=24).fetch(np.arange(5))
    summed, metrics = loss(answers(CLASSIFIER.model, batch), batch.label_B)
    logits = CLASSIFIER.model(*batch.inputs)[:, 0]
    assert_same(summed, F.cross_entropy(logits, batch.label_B, reduction="sum"))
    assert metrics["accuracy"] == (logits.argmax(1) == batch.label_B).sum()
    smooth, metrics = loss(logits, batch.label_B, label_smoothing=0.1)
    assert_same(metrics["loss"], summed)
    assert not torch.equal(smooth, summed)
    share = batch.share(7, 9)
    nothing, metrics = loss(answers(CLASSIFIER.model, share), share.label_B)
    assert (nothing.item(), metrics["accuracy"].item()) == (0, 0)


def test_the_regression_loss_is_the_squared_error() -> None:
    examples = [Example(text, None, str(i)) for i, text in enumerate(TEXTS)]
    batch = Labelled(TOKENIZER, examples, (), max_length=24).fetch(np.arange(5))
    summed, _ = loss(answers(RATER.model, batch), batch.label_B)
    expected = sum((prediction.value - i) ** 2 for i, prediction in enumerate(RATER.classify(TEXTS)))
    assert summed.item() == pytest.approx(expected)
    share = batch.share(7, 9)
    assert loss(answers(RATER.model, share), share.label_B)[0].item() == 0


def test_a_trace_shows_the_predicted_label_and_the_alternatives() -> None:
    trace = CLASSIFIER.trace("good food")
    prediction = CLASSIFIER.classify(["good food"])[0]
    (predicted,) = trace.token_probabilities(trace.run())
    assert trace.target.layout.spelled == (prediction.label,)
    assert predicted.probability == pytest.approx(prediction.value)
    assert CLASSIFIER.trace("good food", "bad").target.layout.spelled == ("bad",)
    with pytest.raises(ValueError, match="'awful' is not a label of this model; it has bad, good, so so"):
        CLASSIFIER.trace("good food", "awful")
    assert float(RATER.trace("dog").target.layout.spelled[0]) == pytest.approx(
        RATER.classify(["dog"])[0].value, rel=0.01
    )
