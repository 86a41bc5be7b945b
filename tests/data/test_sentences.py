import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.sentences import split


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Hello there. How are you? Fine!", ["Hello there.", "How are you?", "Fine!"]),
        ("one line\nand another", ["one line", "and another"]),
        ('He said "No!" and left. "Why?" she asked.', ['He said "No!" and left.', '"Why?" she asked.']),
        ("Dr. Smith met J. R. Ewing at 5 p.m. on Monday. He left.", None),
        ("It costs 3.50. Too much…  Really", ["It costs 3.50.", "Too much…", "Really"]),
        ("No. Yes. Come in.", ["No.", "Yes.", "Come in."]),
        ("Sí. ¿Qué tal? ¡Hola! (Bien.) Y tú", ["Sí.", "¿Qué tal?", "¡Hola!", "(Bien.)", "Y tú"]),
        ("你好。今天天气很好！“是吗？”他问", ["你好。", "今天天气很好！", "“是吗？”", "他问"]),
        ("I have 5. You have 6. We go.", ["I have 5.", "You have 6.", "We go."]),
        ("Wait... what?! Yes.", ["Wait... what?!", "Yes."]),
        ("  \n\n ", []),
        ("", []),
    ],
)
def test_texts_are_split_into_sentences(text, sentences) -> None:
    expected = sentences or ([text.partition(" He")[0], "He left."] if "Dr." in text else [])
    assert list(split(text).sentences) == expected


@given(st.text(alphabet=st.sampled_from("ab A.!?。 \n\t,\"'(«¿é…")), st.integers(1, 30))
def test_sentences_restore_the_text_and_respect_the_maximum_length(text, max_length) -> None:
    document = split(text, max_length)
    assert document.with_sentences(document.sentences) == text
    assert all(0 < len(sentence) <= max_length and sentence == sentence.strip() for sentence in document.sentences)
    assert all("\n" not in sentence for sentence in document.sentences)
    assert all(not gap.strip() for gap in document.gaps)


def test_a_long_sentence_is_split_after_a_comma_or_else_between_words() -> None:
    assert split("one two three, four five six", 20).sentences == ("one two three,", "four five six")
    assert split("one two three four five six", 20).sentences == ("one two three four", "five six")
    assert split("a, one two three four five six", 20).sentences == ("a, one two three", "four five six")
    assert split("exactly 10,000 dollars, no more", 20).sentences == ("exactly 10,000", "dollars, no more")
    assert split("x" * 50, 20).sentences == ("x" * 20, "x" * 20, "x" * 10)


def test_replaced_sentences_keep_the_white_space_of_the_document() -> None:
    document = split("  One. Two.\n\n\tThree\n")
    assert document.with_sentences(["Uno.", "Dos.", "Tres"]) == "  Uno. Dos.\n\n\tTres\n"
