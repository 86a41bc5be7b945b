import pytest
import torch

from helpers import assert_same
from regard.blocks.embedding import TokenEmbedding


def test_embeddings_are_scaled_by_the_square_root_of_the_width() -> None:
    embedding = TokenEmbedding(10, 16)
    assert torch.equal(embedding(torch.tensor([[3, 7]]))[0], embedding.weight[[3, 7]] * 4)


def test_unscaled_embeddings_are_rows_of_the_table() -> None:
    embedding = TokenEmbedding(10, 16, scaled=False)
    assert torch.equal(embedding(torch.tensor([[3, 7]]))[0], embedding.weight[[3, 7]])


def test_logits_are_products_with_the_embedding_table() -> None:
    embedding = TokenEmbedding(10, 16).double()
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    assert_same(embedding.logits(x), x @ embedding.weight.T)


def test_initial_embeddings_and_logits_have_variance_one() -> None:
    embedding = TokenEmbedding(2000, 64)
    vectors = embedding(torch.arange(2000)[None])
    # five standard errors of the variance of 128,000 normal numbers are 2 %
    assert vectors.var().item() == pytest.approx(1, rel=0.02)
    assert embedding.logits(torch.randn(1, 2000, 64)).var().item() == pytest.approx(1, rel=0.02)


def test_tokens_outside_the_vocabulary_and_wrong_shapes_raise_an_error() -> None:
    with pytest.raises(
        ValueError, match="token ids from 2 to 10 are outside the vocabulary of 10 tokens; was the text encoded with"
    ):
        TokenEmbedding(10, 16)(torch.tensor([[2, 10]]))
    with pytest.raises(ValueError, match=r"x should have shape \(batch, length, 16\), got \(1, 2, 15\)"):
        TokenEmbedding(10, 16).logits(torch.zeros(1, 2, 15))
    with pytest.raises(ValueError, match="tokens should be integers, got torch.float32"):
        TokenEmbedding(10, 16)(torch.tensor([[1.0, 2.0]]))
    with pytest.raises(ValueError, match=r"tokens should have shape \(batch, length\), got \(3,\)"):
        TokenEmbedding(10, 16)(torch.tensor([1, 2, 3]))
