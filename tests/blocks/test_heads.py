import torch
from torch.nn import functional as F

from helpers import assert_same
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.heads import LinearHead, Pooler, WordHead

TOKENS = TokenEmbedding(11, 8, scaled=False)


def test_the_word_head_computes_logits_with_the_token_embedding() -> None:
    torch.manual_seed(1)
    head = WordHead(8, 11, activation="gelu", norm_eps=1e-12, next_sentence=False)
    torch.nn.init.normal_(head.bias)
    x_BTD = torch.randn(2, 3, 8)
    vectors = F.layer_norm(F.gelu(x_BTD @ head.dense.weight.T + head.dense.bias), (8,), eps=1e-12)
    assert_same(head(x_BTD), vectors)
    assert_same(head.answer(x_BTD, TOKENS), vectors @ TOKENS.weight.T + head.bias)


def test_only_a_head_with_next_sentence_prediction_has_its_weights() -> None:
    names = {
        next_sentence: set(WordHead(8, 11, activation="relu", norm_eps=1e-12, next_sentence=next_sentence).state_dict())
        for next_sentence in (True, False)
    }
    assert names[True] - names[False] == {"next.weight", "next.bias"}
    assert names[False] == {"dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias"}


def test_a_linear_head_uses_dropout_only_in_training() -> None:
    torch.manual_seed(1)
    head = LinearHead(8, 3, dropout=0.5)
    assert set(head.state_dict()) == {"1.weight", "1.bias"}
    x_BTD = torch.randn(2, 5, 8)
    assert not torch.equal(head.answer(x_BTD, TOKENS), head.answer(x_BTD, TOKENS))
    assert_same(head.eval().answer(x_BTD, TOKENS), x_BTD @ head[1].weight.T + head[1].bias)


def test_the_pooler_uses_the_first_token() -> None:
    torch.manual_seed(1)
    pooler = Pooler(8)
    assert set(pooler.state_dict()) == {"weight", "bias"}
    x_BTD = torch.randn(2, 5, 8)
    assert_same(pooler(x_BTD), (x_BTD[:, :1] @ pooler.weight.T + pooler.bias).tanh())


def test_the_pooler_uses_the_given_activation() -> None:
    torch.manual_seed(1)
    pooler, x_BTD = Pooler(8, F.gelu), torch.randn(2, 5, 8)
    assert_same(pooler(x_BTD), F.gelu(x_BTD[:, :1] @ pooler.weight.T + pooler.bias))
