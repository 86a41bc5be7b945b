from math import exp, log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from completers import boundless
from helpers import randomise
from regard.codecs.gpt2 import ByteBpe, CharacterTokenizer
from regard.data.batches import IGNORED
from regard.evaluation import language
from regard.evaluation.language import overlapping
from regard.models.gpt2 import Gpt2, Gpt2Config
from regard.tasks.completion import Completer

TEXT = "Wer reitet so spät durch Nacht und Wind?\nEs ist der Vater mit seinem Kind;\n"
TOKENIZERS = [CharacterTokenizer.learn([TEXT]), ByteBpe.train(290, [TEXT])]


def model(vocab_size: int, context: int) -> Gpt2:
    torch.manual_seed(1)
    config = Gpt2Config(vocab_size=vocab_size, width=8, heads=2, ff_width=16, layers=2, context=context)
    return randomise(config.build()).eval()


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_uniform_model_has_the_perplexity_of_its_vocabulary_size(tokenizer) -> None:
    knows_nothing = model(tokenizer.vocab_size, 16)
    with torch.no_grad():
        for parameter in knows_nothing.parameters():
            parameter.zero_()
    found = Completer(knows_nothing, tokenizer).measure(TEXT)
    (tokens,) = tokenizer.encode([TEXT])
    size = len(TEXT.encode())
    assert (found.tokens, found.bytes) == (len(tokens), size)
    assert found.loss == pytest.approx(log(tokenizer.vocab_size), rel=1e-12)
    assert found.perplexity == pytest.approx(tokenizer.vocab_size, rel=1e-12)
    assert found.bits_per_byte == pytest.approx(len(tokens) * np.log2(tokenizer.vocab_size) / size, rel=1e-12)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("spare", [0, 1, 40])
def test_a_text_that_fits_the_context_has_the_plain_loss(tokenizer, spare) -> None:
    (tokens,) = tokenizer.encode([TEXT])
    own = model(tokenizer.vocab_size, len(tokens) + spare)
    logits_TV = own(torch.tensor([[tokenizer.begin, *tokens[:-1]]]))[0]
    loss = F.cross_entropy(logits_TV, torch.tensor(tokens)).item()
    found = Completer(own, tokenizer).measure(TEXT)
    assert found.loss == pytest.approx(loss, rel=1e-12)
    assert found.perplexity == pytest.approx(exp(loss), rel=1e-12)


def test_a_model_without_a_limit_reads_a_text_at_once() -> None:
    of = boundless("characters")
    text = "O Romeo, Romeo! " * 20
    (tokens,) = of.tokenizer.encode([text])
    logits_TV = of.model(torch.tensor([[of.tokenizer.begin, *tokens[:-1]]]))[0]
    found = of.measure(text)
    assert found.tokens == len(tokens)
    assert found.loss == pytest.approx(F.cross_entropy(logits_TV, torch.tensor(tokens)).item(), rel=1e-6)


@given(st.integers(1, 12), st.integers(1, 70), st.integers(1, 50))
def test_overlapping_windows_score_each_token_once_after_half_a_context(context, count, batch_tokens) -> None:
    tokens = np.arange(100, 101 + count)
    scored = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language, "BATCH_TOKENS", batch_tokens)
        for batch in overlapping(tokens, context):
            assert batch.tokens_BT.size(1) == min(context, count)
            for row, following in zip(batch.tokens_BT.tolist(), batch.next_BT.tolist(), strict=True):
                assert row == list(range(row[0], row[0] + len(row)))
                for place, token in enumerate(following):
                    if token != IGNORED:
                        assert token == row[place] + 1
                        assert row[0] == 100 or place >= context // 2
                        scored.append(token)
    assert scored == list(range(101, 101 + count))


def test_a_long_text_has_the_score_of_its_tokens_one_by_one() -> None:
    tokenizer, context = TOKENIZERS[0], 6
    own = model(tokenizer.vocab_size, context)
    (tokens,) = tokenizer.encode([TEXT])
    text = [tokenizer.begin, *tokens]
    total = 0.0
    for batch in overlapping(np.array(text), context):
        for row, following in zip(batch.tokens_BT, batch.next_BT.tolist(), strict=True):
            for place, token in enumerate(following):
                if token != IGNORED:
                    total -= own(row[None, : place + 1])[0, -1].log_softmax(-1)[token].item()
    assert Completer(own, tokenizer).measure(TEXT).loss == pytest.approx(total / len(tokens), rel=1e-10)


def test_an_empty_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="the text is empty, so there is nothing to evaluate"):
        Completer(model(TOKENIZERS[0].vocab_size, 4), TOKENIZERS[0]).measure("")
