"""A string in gives one result, a list gives a list, anything else a clear error."""

import pytest
import torch

import regard
from completers import completer
from regard.models.heads import ClassificationHead, NoHead, PretrainingHead, TaggingHead
from regard.tasks.classification import Classifier
from regard.tasks.embedding import Embedder
from regard.tasks.pretraining import MaskFiller
from regard.tasks.tagging import PieceTagger
from texts import TOKENIZER, bert

TEXT = "the brown dog"


def test_a_string_is_one_text_to_a_translator() -> None:
    translator = regard.load("en-es")
    ((found,),) = translator.translate(["We are eating bread."])
    (alone,) = translator.translate("We are eating bread.")
    assert alone == found
    assert translator.sample("We are eating bread.")[0].text
    assert translator.score("We eat.", "Comemos.") == translator.score(["We eat."], ["Comemos."])[0]
    assert translator.align("We eat.", "Comemos.") == translator.align(["We eat."], ["Comemos."])[0]


def test_a_string_is_one_prompt_to_a_language_model() -> None:
    of = completer("characters")
    assert of.complete("ROMEO:", tokens=5) == of.complete(["ROMEO:", "NURSE:"], tokens=5)[0]
    assert of.best("ROMEO:", tokens=5, n_best=2) == of.best(["ROMEO:"], tokens=5, n_best=2)[0]
    with pytest.raises(ValueError, match=r"a single prompt, a string, is streamed; got \['ROMEO:'\]"):
        of.stream(["ROMEO:"])


def test_unknown_options_are_errors() -> None:
    translator, of = regard.load("en-es"), completer("characters")
    for call in (translator.translate, translator.sample, of.complete, of.best, of.stream):
        with pytest.raises(ValueError, match="unknown option 'beem'; the options are .*"):
            call("We are eating bread.", beem=8)  # type: ignore[operator]


def test_a_string_is_one_text_to_encoders() -> None:
    classifier = Classifier(bert(ClassificationHead(labels=("good", "bad"))), TOKENIZER)
    assert classifier.classify(TEXT) == classifier.classify([TEXT])[0]
    assert classifier.classify(TEXT, TEXT) == classifier.classify([TEXT], [TEXT])[0]
    encoder = Embedder(bert(NoHead()), TOKENIZER)
    assert torch.equal(encoder.embed(TEXT), encoder.embed([TEXT])[0])
    tagger = PieceTagger(bert(TaggingHead(labels=("A", "B"))), TOKENIZER)
    assert tagger.tag(TEXT) == tagger.tag([TEXT])[0] == tagger.tag([TEXT.split()])[0]
    assert len(tagger.tag(TEXT)) == 3
    filler = MaskFiller(bert(PretrainingHead()), TOKENIZER)
    assert filler.fill("the [MASK]", 2) == filler.fill(["the [MASK]"], 2)[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [([3], "should be strings; one of them is 3"), (None, "a string or a list"), (b"text", "a string or a list")],
)
def test_other_types_of_input_raise_an_error(wrong, message) -> None:
    with pytest.raises(ValueError, match=message):
        regard.load("en-es").translate(wrong)
    answers = (
        Embedder(bert(NoHead()), TOKENIZER).embed,
        Classifier(bert(ClassificationHead(labels=("good", "bad"))), TOKENIZER).classify,
        MaskFiller(bert(PretrainingHead()), TOKENIZER).fill,
        completer("characters").complete,
        completer("characters").best,
    )
    for answer in answers:
        with pytest.raises(ValueError, match=message):
            answer(wrong)
    with pytest.raises(ValueError, match=r"a text or a list|should be a string or a list of strings; got 3"):
        PieceTagger(bert(TaggingHead(labels=("A", "B"))), TOKENIZER).tag(wrong)


def test_texts_and_their_pairs_must_be_equal_in_number() -> None:
    classifier = Classifier(bert(ClassificationHead(labels=("good", "bad"))), TOKENIZER)
    with pytest.raises(ValueError, match="got 2 texts and 1 second text"):
        classifier.classify([TEXT, TEXT], [TEXT])
    with pytest.raises(ValueError, match="got 2 sources and 1 target"):
        regard.load("en-es").score(["a", "b"], ["c"])
