import pytest
import torch
from torch.nn import functional as F

from helpers import assert_same, randomise
from regard.codecs.subword import PAD_ID, SubwordTokenizer
from regard.data.batches import in_batches
from regard.data.parallel import pair_batch
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.transformer import TransformerConfig
from regard.tasks.translation import Translator, loss

TEXTS = ["the child eats bread", "el niño come pan", "we", "stones and bread and children"]
TOKENIZER = SubwordTokenizer.train("bpe", 280, TEXTS)


def make(**changes) -> torch.nn.Module:
    shape = {"vocab_size": TOKENIZER.vocab_size, "width": 8, "heads": 2, "ff_width": 8, "encoder_layers": 1}
    return randomise(TransformerConfig(**shape, decoder_layers=1, **changes).build()).eval()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_is_cross_entropy_without_padding(tied, label_smoothing) -> None:
    model = make(tied=tied)
    batch = pair_batch([[5, 6], [7]], [[8], [9, 10, 11]])
    smooth, plain, count = loss(model, batch, label_smoothing)
    logits = model(*batch.inputs).flatten(0, 1)
    target = batch.next_BT.flatten()
    assert_same(
        smooth, F.cross_entropy(logits, target, ignore_index=PAD_ID, reduction="sum", label_smoothing=label_smoothing)
    )
    assert_same(plain, F.cross_entropy(logits, target, ignore_index=PAD_ID, reduction="sum"))
    assert count == 2 + 4


def test_translations_do_not_depend_on_batch_or_order() -> None:
    translator = Translator(make(), TOKENIZER, TOKENIZER)
    together = translator.translate(TEXTS, n_best=2, batch_tokens=40)
    for text, found in zip(TEXTS, together, strict=True):
        (alone,) = translator.translate([text], n_best=2)
        assert [t.text for t in found] == [t.text for t in alone]
    backwards = translator.translate(TEXTS[::-1], n_best=2)
    assert [[t.text for t in found] for found in backwards[::-1]] == [[t.text for t in found] for found in together]


def test_the_translation_of_an_empty_text_is_empty() -> None:
    translator = Translator(make(), TOKENIZER, TOKENIZER)
    assert [found[0].text for found in translator.translate(["", ""])] == ["", ""]
    assert translator.translate([]) == []


def test_a_very_long_text_does_not_affect_the_others() -> None:
    translator = Translator(make(), TOKENIZER, TOKENIZER)
    long = "bread " * 200
    found = translator.translate(["we", long, "the child"], beam=1)
    (alone,) = translator.translate("we", beam=1)
    assert (found[0][0].tokens, found[0][0].truncated) == (alone.tokens, alone.truncated)
    assert found[0][0].log_probability == pytest.approx(alone.log_probability)
    assert len(found) == 3


def test_scores_are_log_probabilities_and_agree_with_the_search() -> None:
    translator = Translator(make(), TOKENIZER, TOKENIZER)
    model = translator.model
    scores = translator.score(["the child", "we", "we"], ["el niño", "x" * 60, ""], batch_tokens=30)
    tokens = TOKENIZER.encode(["the child", "el niño"])
    batch = pair_batch([tokens[0]], [tokens[1]])
    logs = model(batch.source_BS, batch.target_BT).log_softmax(-1)[0].detach()
    assert scores[0] == pytest.approx(sum(float(logs[i, t]) for i, t in enumerate(batch.next_BT[0])))
    assert scores[2] > scores[1]
    assert all(score < 0 for score in scores)


def test_batches_hold_texts_of_similar_length() -> None:
    lengths = [3, 0, 9, 4, 100, 3]
    batches = list(in_batches(lengths, tokens=12))
    assert batches == [[4], [2], [3, 0], [5]]
    assert sorted(i for batch in in_batches(lengths, 12, with_empty=True) for i in batch) == list(range(6))


def test_the_log_probabilities_of_words_and_of_the_end_add_up() -> None:
    translator = Translator(make(), TOKENIZER, TOKENIZER)
    for text, found in zip(TEXTS, translator.translate(TEXTS, length_penalty=0.3), strict=True):
        (best,) = found
        assert " ".join(best.words) == " ".join(word.decode() for word in best.text.encode().split())
        assert len(best.words) == len(best.word_log_probabilities)
        assert all(log < 0 for log in (*best.word_log_probabilities, best.end_log_probability))
        total = sum(best.word_log_probabilities) + best.end_log_probability
        assert best.log_probability == pytest.approx(total)
        assert best.mean_log_probability == pytest.approx(total / (len(best.tokens) + 1))
        if not best.truncated and TOKENIZER.encode([best.text])[0] == list(best.tokens):
            assert translator.score(text, best.text) == pytest.approx(total, rel=1e-4)


def test_an_alignment_has_the_attention_of_each_word() -> None:
    translator = Translator(make(), TOKENIZER, TOKENIZER)
    (found,) = translator.translate(["the child eats  bread"], align=True)[0]
    assert found.alignment.source == ("the", "child", "eats", "bread")
    assert found.alignment.target == found.words
    (given,) = translator.align(["the child eats  bread"], ["el niño come pan"])
    assert given.target == ("el", "niño", "come", "pan")
    assert [len(row) for row in given.weights] == [4, 4, 4, 4]
    assert all(0 < sum(row) < 1 for row in given.weights)  # the end token gets attention, too
    assert translator.translate(["we"])[0][0].alignment is None


def test_a_translation_begins_with_its_prefix() -> None:
    translator = Translator(make(), TOKENIZER, TOKENIZER)
    found = translator.translate(TEXTS, prefixes=["el niño", "", "x", "el"], n_best=2)
    plain = translator.translate(TEXTS, n_best=2)
    for translations, prefix in zip(found, ["el niño", "", "x", "el"], strict=True):
        assert all(translation.text.startswith(prefix) for translation in translations)
    assert found[1] == plain[1]
    with pytest.raises(ValueError, match="got 4 texts and 1 prefix"):
        translator.translate(TEXTS, prefixes=["el"])


def test_samples_are_reproducible_by_seed() -> None:
    translator = Translator(make(), TOKENIZER, TOKENIZER)
    one = translator.sample(TEXTS, samples=3, seed=1)
    assert [[t.text for t in found] for found in one] == [
        [t.text for t in found] for found in translator.sample(TEXTS, samples=3, seed=1, batch_tokens=30)
    ]
    assert one != translator.sample(TEXTS, samples=3, seed=9)
    cold = translator.sample(TEXTS, temperature=0.0)
    assert [found[0].text for found in cold] == [found[0].text for found in translator.translate(TEXTS, beam=1)]


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(
            vocab_size=TOKENIZER.vocab_size, width=8, heads=2, ff_width=8, positions="learned", context=30
        ),
        ConvSeq2SeqConfig(vocab_size=TOKENIZER.vocab_size, width=8, context=30),
    ],
)
def test_a_text_beyond_the_maximum_length_is_truncated_and_does_not_affect_the_others(config) -> None:
    translator = Translator(randomise(config.build()), TOKENIZER, TOKENIZER)
    alone, long = translator.translate(["we", "x" * 100])
    assert [found.tokens for found in alone] == [found.tokens for found in translator.translate(["we"])[0]]
    assert long[0].truncated
    assert len(long[0].tokens) <= 29
    assert not any(found.truncated for found in alone if len(found.tokens) < 22)
    assert len(list(translator.generate("x" * 100))) <= 29
