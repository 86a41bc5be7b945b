from regard.explain.alignment import Alignment
from regard.tasks.documents import translate_texts
from regard.tasks.translation_types import Translation


def backwards(texts, _prefixes=()):
    """Translates each word by itself and reverses the word order."""
    results = []
    for text in texts:
        words = tuple(text.split())
        weights = tuple(tuple(float(i + j == len(words) - 1) for i in range(len(words))) for j in range(len(words)))
        alignment = Alignment(words, words[::-1], weights)
        best = Translation(" ".join(words[::-1]), -1.0, alignment=alignment)
        results.append([best, Translation(text.upper(), -2.0, alignment=alignment)])
    return results


def test_texts_are_translated_by_sentence_and_joined_in_order() -> None:
    texts = ["  One two. Three four five!\n\nSix", "", "seven eight"]
    found = list(translate_texts(texts, backwards))
    assert [document.text for document in found] == texts
    assert [document.translation(0) for document in found] == ["  two. One five! four Three\n\nSix", "", "eight seven"]
    assert found[0].translation(1) == texts[0].upper()
    assert [len(document.ranks()) for document in found] == [2, 1, 2]


def test_links_count_words_over_the_whole_text() -> None:
    (found,) = translate_texts(["One two. Three four five!\nSix"], backwards)
    assert found.pharaoh(0) == "1-0 0-1 4-2 3-3 2-4 5-5"


def test_sentences_without_a_space_between_them_share_a_word() -> None:
    (found,) = translate_texts(["你好。世界。 再见"], backwards)
    assert found.translation(0) == "你好。世界。 再见"
    assert found.pharaoh(0) == "0-0 0-0 1-1"


def test_sentences_translated_from_chinese_are_separated_by_spaces() -> None:
    def translate(texts, _prefixes):
        words = {"你好。": "Hello there.", "世界。": "World."}
        return [
            [
                Translation(
                    words[t], 0.0, alignment=Alignment((t,), tuple(words[t].split()), ((1.0,),) * len(words[t].split()))
                )
            ]
            for t in texts
        ]

    (found,) = translate_texts(["你好。世界。"], translate)
    assert found.translation(0) == "Hello there. World."
    assert found.pharaoh(0) == "0-0 0-1 0-2"


def test_a_prefix_applies_to_the_first_sentence_of_each_text() -> None:
    seen = []

    def translate(texts, prefixes):
        seen.append((list(texts), list(prefixes)))
        return backwards(texts)

    list(translate_texts(["One. Two.", "", "Three"], translate, "El"))
    assert seen == [(["One.", "Two.", "Three"], ["El", "", "El"])]
