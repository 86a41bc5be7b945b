from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers import assert_same
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.heads import Pooler
from regard.data.batches import IGNORED
from regard.data.pretraining import PretrainingBatch
from regard.models.heads import PretrainingHead
from regard.tasks.pretraining import MaskFiller, next_loss, word_loss
from texts import TOKENIZER, bert

GUESSER = MaskFiller(bert(PretrainingHead()), TOKENIZER)


def test_the_losses_are_summed_over_masked_words_and_pairs() -> None:
    tokens_BT = torch.randint(5, 50, (2, 6))
    words_BT = torch.tensor([[IGNORED, 7, IGNORED, 9, IGNORED, IGNORED], [IGNORED] * 5 + [11]])
    batch = PretrainingBatch(tokens_BT, torch.zeros_like(tokens_BT), words_BT, torch.tensor([1, IGNORED]))
    model = GUESSER.model
    x_BTD = model.hidden(*batch.inputs)
    logits_BTV = model(*batch.inputs)
    loss, metrics = word_loss(model, x_BTD, batch)
    assert_same(loss, F.cross_entropy(logits_BTV.flatten(0, 1), words_BT.flatten(), reduction="sum"))
    assert metrics["mlm_accuracy"] == (logits_BTV.argmax(2) == words_BT).sum()
    smooth, metrics = word_loss(model, x_BTD, batch, label_smoothing=0.1)
    assert_same(metrics["loss"], loss)
    assert not torch.equal(smooth, loss)
    loss, metrics = next_loss(model, x_BTD, batch)
    answers = model.head.next(model.pool(x_BTD))[:, 0]
    assert_same(loss, F.cross_entropy(answers[:1], torch.tensor([1]), reduction="sum"))
    assert metrics["nsp_accuracy"] == (answers[0].argmax() == 1)
    loss, metrics = word_loss(model, x_BTD[:1], batch.share(3, 4))
    assert (loss.item(), metrics["mlm_accuracy"].item()) == (0, 0)


@dataclass(frozen=True)
class BagConfig:
    """The config of an encoder that is not BERT."""

    vocab_size = 50
    width = 8
    activation = "relu"
    norm_eps = 1e-5
    dropout = 0.1
    head = PretrainingHead()


class Bag(nn.Module):
    """The hidden state of each token contains the sum of all."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.pooler = TokenEmbedding(50, 8, scaled=False), Pooler(8)
        self.head = BagConfig.head.build(BagConfig())

    def hidden(self, tokens_BT):
        x_BTD = self.tokens(tokens_BT)
        return x_BTD + x_BTD.sum(1, keepdim=True)

    def pool(self, x_BTD):
        return self.pooler(x_BTD)


def test_any_encoder_with_a_pretraining_head_can_be_pretrained() -> None:
    torch.manual_seed(1)
    model, tokens_BT = Bag(), torch.randint(5, 50, (2, 6))
    words_BT = torch.full_like(tokens_BT, IGNORED)
    words_BT[0, 2] = 7
    batch = PretrainingBatch(tokens_BT, torch.zeros_like(tokens_BT), words_BT, torch.tensor([1, 0]))
    x_BTD = model.hidden(tokens_BT)
    logits_BTV = model.head.answer(x_BTD, model.tokens)
    assert_same(word_loss(model, x_BTD, batch)[0], F.cross_entropy(logits_BTV[0, 2:3], torch.tensor([7])))
    answers = model.head.next(model.pool(x_BTD))[:, 0]
    assert_same(next_loss(model, x_BTD, batch)[0], F.cross_entropy(answers, batch.follows_B, reduction="sum"))


def test_masks_are_filled_with_the_most_probable_words() -> None:
    (first, second) = GUESSER.fill("the [MASK] dog ran to [MASK]", count=3)
    encoded = GUESSER.read("the [MASK] dog ran to [MASK]")
    probabilities = GUESSER.model(*GUESSER.inputs(encoded))[0].softmax(-1)
    places = [i for i, token in enumerate(encoded.tokens) if token == TOKENIZER.mask]
    assert len(places) == 2
    for place, guesses in zip(places, (first, second), strict=True):
        assert [guess.probability for guess in guesses] == pytest.approx(probabilities[place].topk(3).values.tolist())
        assert guesses[0].word == TOKENIZER.pieces([int(probabilities[place].argmax())])[0]
    with pytest.raises(ValueError, match=r"the text 'the dog' contains no \[MASK\]; write"):
        GUESSER.fill("the dog")
    with pytest.raises(ValueError, match=r"contains no \[MASK\] within its first 24 tokens"):
        GUESSER.fill("the dog " * 30 + "[MASK]")


def test_texts_are_filled_together_as_each_alone() -> None:
    texts = ["the [MASK] dog ran to [MASK]", "[MASK]", "a small child is [MASK] bread in the old house"]
    for text, together in zip(texts, GUESSER.fill(texts, count=2), strict=True):
        for one, other in zip(together, GUESSER.fill(text, count=2), strict=True):
            assert [each.word for each in one] == [each.word for each in other]
            assert [each.probability for each in one] == pytest.approx([each.probability for each in other])


def test_next_sentence_prediction_gives_a_probability() -> None:
    assert 0 < GUESSER.follows("the dog", "bread") < 1
    assert GUESSER.follows("the dog", "bread") != GUESSER.follows("bread", "the dog")
    with pytest.raises(ValueError, match="not trained on next-sentence prediction"):
        MaskFiller(bert(PretrainingHead(pooled=False)), TOKENIZER).follows("a", "b")


def test_a_trace_shows_the_word_predicted_for_a_mask() -> None:
    trace = GUESSER.trace("the [MASK] ran")
    ((best, *_),) = GUESSER.fill("the [MASK] ran")
    assert best.word in trace.target.pieces
    assert TOKENIZER.mask in trace.streams["text"].tokens
    assert TOKENIZER.mask not in trace.target.tokens
    assert GUESSER.trace("the [MASK] ran", "the dog ran").target.layout.spelled == ("the", "dog", "ran")
