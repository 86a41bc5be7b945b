"""One training step of a *small* encoder-decoder (3+3 layers, width 256), beside other libraries'.

    python benchmarks/train_step.py

All have the same shape, with the norm after each sublayer, and dropout in the same places: on embeddings and on what
each sublayer adds; torch.nn.Transformer takes part a second time, with all the dropout that it comes with. They get the
same batch of 64 pairs of 24 tokens, cross-entropy with label smoothing of 0.1 and AdamW; one step is forward, backward
and update. Regard comes as it trains, with its own dropout and its own loss, which never forms all logits. JoeyNMT
takes part where it is installed (it needs an environment of its own, because it asks for an old protobuf), with its own
loss, and with dropout inside its attention and feed-forward layers, too.
"""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import MarianConfig, MarianMTModel

from harness import interleave, machine, report
from regard.data.parallel import PairBatch as Batch
from regard.models.transformer import TransformerConfig
from regard.tasks import translation

VOCABULARY, WIDTH, HEADS, FF_WIDTH, LAYERS, DROPOUT, SMOOTHING = 8000, 256, 4, 1024, 3, 0.1, 0.1
BATCH, LENGTH = 64, 24


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with a tied embedding and learned positions.

    Args:
        as_it_comes: with dropout also on attention weights and inside the feed-forward network, as torch has it.
    """

    def __init__(self, as_it_comes: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.body = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, FF_WIDTH, DROPOUT, batch_first=True)
        for layer in () if as_it_comes else (*self.body.encoder.layers, *self.body.decoder.layers):
            layer.dropout.p = 0.0  # inside the feed-forward network
            for attention in (module for module in layer.modules() if isinstance(module, nn.MultiheadAttention)):
                attention.dropout = 0.0  # on the weights
        self.dropout = nn.Dropout(DROPOUT)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Logits for the token after each target token."""
        source, target = (
            self.dropout(self.embedding(tokens) * WIDTH**0.5 + self.positions) for tokens in (source_BS, target_BT)
        )
        is_padding = source_BS == 0
        hidden = self.body(
            source, target, tgt_mask=self.mask, src_key_padding_mask=is_padding, memory_key_padding_mask=is_padding
        )
        return F.linear(hidden, self.embedding.weight)


def marian() -> nn.Module:
    """Hugging Face's Marian in the same shape."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=FF_WIDTH,
            decoder_ffn_dim=FF_WIDTH,
            activation_function="relu",
            dropout=DROPOUT,
            scale_embedding=True,
            pad_token_id=0,
            decoder_start_token_id=0,
        )
    )


def joey() -> tuple[nn.Module, Callable[[Batch], Tensor]] | None:
    """JoeyNMT's model in the same shape and the loss of a batch, if it is installed."""
    try:
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary
    except ImportError:
        return None
    specials = SimpleNamespace(
        **{f"{name}_token": f"<{name}>" for name in ("unk", "pad", "bos", "eos")},
        **{f"{name}_id": i for i, name in enumerate(("unk", "pad", "bos", "eos"))},
        sep_token=None,
        lang_tags=[],
    )
    vocabulary = Vocabulary([str(i) for i in range(VOCABULARY - 4)], specials)
    half = {
        "type": "transformer",
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "embeddings": {"embedding_dim": WIDTH, "scale": True, "dropout": DROPOUT},
        "hidden_size": WIDTH,
        "ff_size": FF_WIDTH,
        "dropout": DROPOUT,
        "layer_norm": "post",
    }
    model = build_model(
        {"encoder": half, "decoder": half, "tied_embeddings": True, "tied_softmax": True}, vocabulary, vocabulary
    )
    model.loss_function = ("crossentropy", SMOOTHING)

    def loss(batch: Batch) -> Tensor:
        return model(
            return_type="loss",
            src=batch.source_BS,
            trg_input=batch.target_BT,
            trg=batch.next_BT,
            src_mask=(batch.source_BS != 1)[:, None],
            trg_mask=(batch.next_BT != 1)[:, None],
            src_length=torch.full((BATCH,), LENGTH),
        )[0]

    return model.train(), loss


def stepper(model: nn.Module, loss: Callable[[Batch], Tensor]) -> Callable[[], None]:
    """A function that takes one training step on a loss that is summed over tokens."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    chance = torch.Generator().manual_seed(0)
    # from 4 on, so that no library takes a token for padding
    batch = Batch(*(torch.randint(4, VOCABULARY, (BATCH, LENGTH), generator=chance) for _ in range(3)))

    def step() -> None:
        optimizer.zero_grad()
        (loss(batch) / batch.next_BT.numel()).backward()
        optimizer.step()

    return step


def cross_entropy(logits_BTV: Tensor, next_BT: Tensor) -> Tensor:
    """torch's own loss."""
    return F.cross_entropy(logits_BTV.flatten(0, 1), next_BT.flatten(), reduction="sum", label_smoothing=SMOOTHING)


def main() -> None:
    """Measures and prints a table."""
    torch.manual_seed(0)
    ours = TransformerConfig.preset("small", vocab_size=VOCABULARY, dropout=DROPOUT, norm_placement="post").build()
    hugging_face = marian().train()

    def torch_step(as_it_comes: bool) -> Callable[[], None]:
        model = TorchTransformer(as_it_comes)
        return stepper(model, lambda batch: cross_entropy(model(batch.source_BS, batch.target_BT), batch.next_BT))

    def marian_logits(batch: Batch) -> Tensor:
        allowed = batch.source_BS != 0
        return hugging_face(
            input_ids=batch.source_BS, attention_mask=allowed, decoder_input_ids=batch.target_BT, use_cache=False
        ).logits

    contenders = {
        "Regard": stepper(ours, lambda batch: translation.loss(ours, batch, SMOOTHING)[0]),
        "torch.nn.Transformer, dropout as in Regard": torch_step(as_it_comes=False),
        "torch.nn.Transformer, as it comes": torch_step(as_it_comes=True),
        "Hugging Face Marian": stepper(hugging_face, lambda batch: cross_entropy(marian_logits(batch), batch.next_BT)),
    }
    if (found := joey()) is not None:
        contenders["JoeyNMT"] = stepper(*found)
    seconds = interleave(contenders, rounds=20)
    print(machine())
    print(report(seconds, BATCH * LENGTH, "target tokens"))


if __name__ == "__main__":
    main()
