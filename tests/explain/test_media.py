import pytest

from captions import IMAGE, PICTURE, TEXT, Captioner
from completers import completer
from helpers import assert_same
from regard.explain.media import MEDIA, of
from regard.explain.trace import by_role
from regard.explain.view import AttentionView
from regard.models.heads import ClassificationHead
from regard.tasks.classification import Classifier
from texts import TOKENIZER, bert
from traces import read

BOTH = {"image": IMAGE, "text": TEXT}


@pytest.fixture(autouse=True)
def picture(monkeypatch) -> None:
    monkeypatch.setitem(MEDIA, "picture", PICTURE)


def test_each_side_of_a_view_is_merged_and_named_by_its_medium() -> None:
    trace = Captioner().trace(BOTH)
    tokens, units = AttentionView(trace, words=False), AttentionView(trace)
    assert tokens.columns == (" 3", " 4", " 5", " 6")
    assert (units.rows, units.columns) == (("7", "8", "2"), ("row 0", "row 1"))
    assert_same(units.weights, tokens.weights.unflatten(1, (2, 2)).sum(2))
    assert str(units).splitlines()[0].strip() == "row 0  row 1"


def test_the_words_of_a_text_are_its_units() -> None:
    stream = read("transformer").streams["source"]
    assert of(stream).units(stream) == (0, 0, 1, 2, -1)
    assert of(stream).labels(stream) == ("ab", "c", "d")
    assert of(stream).line(stream) == "ab c d"


def test_a_model_with_one_input_takes_it_with_or_without_its_role() -> None:
    assert by_role({"source": "text"}, "we eat") == by_role({"source": "text"}, {"source": "we eat"})
    of = completer("characters")
    assert of.count({"text": "ROMEO:"}) == of.count("ROMEO:") == 6
    assert of.look({"text": "ROMEO:"}).rows == of.look("ROMEO:").rows


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("3456", r"^this model has several inputs: 'image' \(picture\), 'text' \(text\); pass a mapping with all"),
        ({"image": "3456"}, r"^'text' is missing; the inputs of this model are: 'image' \(picture\), 'text' \(text\)$"),
        ({**BOTH, "sound": ""}, "^'sound' is unknown; the inputs of this model are: 'image'"),
        ({"picture": "3456", "text": "7"}, "^'image' is missing, 'picture' is unknown; the inputs"),
    ],
)
def test_errors_for_wrong_inputs_list_the_roles(inputs, message) -> None:
    with pytest.raises(ValueError, match=message):
        by_role(Captioner.accepts, inputs)


def test_every_kind_of_model_rejects_unknown_inputs() -> None:
    classifier = Classifier(bert(ClassificationHead(labels=("bad", "good"))), TOKENIZER)
    for ask in (classifier.count, classifier.trace, classifier.look, completer("characters").generate):
        with pytest.raises(ValueError, match="'text' is missing, 'image' is unknown"):
            ask({"image": "x"})


def test_a_trace_reports_whether_its_output_is_part_of_a_stream() -> None:
    classifier = Classifier(bert(ClassificationHead(labels=("bad", "good"))), TOKENIZER).trace("good food")
    assert not classifier.writes
    assert classifier.output is classifier.target
    translator = read("transformer")
    assert translator.writes
    assert translator.output is translator.target
    continued = completer("characters").trace("ROMEO:")
    assert continued.writes
    assert of(continued.output).line(continued.output).startswith("ROMEO:")
