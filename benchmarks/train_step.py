"""One training step of an encoder-decoder, compared with other libraries.

    python benchmarks/train_step.py
    python benchmarks/train_step.py --size tiny

*small* has 3+3 layers and width 256, *tiny* 4+4 and width 128. All have the same shape, with the norm after each
sublayer, and dropout in the same places: on embeddings and on the output of each sublayer. torch.nn.Transformer is also
measured with its default dropout. All get the same batch of 64 pairs of 24 tokens, cross-entropy with label smoothing
of 0.1, and AdamW; one step is forward, backward and update. Each runs in its own process.
Regard runs as in training: with its own dropout, its own loss, which never materialises all logits, the fused
optimizer, and memory that is kept from step to step. JoeyNMT is measured if it is installed (in a separate environment,
because it requires an old protobuf), with its own loss, and with dropout also inside attention and feed-forward layers.
"""

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import MarianConfig, MarianMTModel

from harness import SeparateProcess, interleave, machine, ratio, report
from regard.data.parallel import PairBatch as Batch
from regard.interop.marian import write_config
from regard.models.transformer import TransformerConfig
from regard.process_memory import keep_memory
from regard.tasks import translation
from regard.training.flops import SHAPES, FlopCounter

VOCABULARY, DROPOUT, SMOOTHING, BATCH, LENGTH = 8000, 0.1, 0.1, 64, 24


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with a tied embedding and learned positions.

    Args:
        default_dropout: dropout also on attention weights and inside the feed-forward network, torch's default.
    """

    def __init__(self, shape: TransformerConfig, default_dropout: bool) -> None:
        super().__init__()
        width, layers = shape.width, shape.encoder_layers
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(LENGTH, width))
        self.body = nn.Transformer(width, shape.heads, layers, layers, shape.ff_width, DROPOUT, batch_first=True)
        for layer in () if default_dropout else (*self.body.encoder.layers, *self.body.decoder.layers):
            layer.dropout.p = 0.0  # inside the feed-forward network
            for attention in (module for module in layer.modules() if isinstance(module, nn.MultiheadAttention)):
                attention.dropout = 0.0  # on the weights
        self.dropout = nn.Dropout(DROPOUT)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Logits for the token after each target token."""
        source, target = (
            self.dropout(self.embedding(tokens) * self.embedding.embedding_dim**0.5 + self.positions)
            for tokens in (source_BS, target_BT)
        )
        is_padding = source_BS == 0
        hidden = self.body(
            source, target, tgt_mask=self.mask, src_key_padding_mask=is_padding, memory_key_padding_mask=is_padding
        )
        return F.linear(hidden, self.embedding.weight)


def joey(shape: TransformerConfig) -> tuple[nn.Module, Callable[[Batch], Tensor]]:
    """JoeyNMT's model of the same shape, and its loss function."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    specials = SimpleNamespace(
        **{f"{name}_token": f"<{name}>" for name in ("unk", "pad", "bos", "eos")},
        **{f"{name}_id": i for i, name in enumerate(("unk", "pad", "bos", "eos"))},
        sep_token=None,
        lang_tags=[],
    )
    vocabulary = Vocabulary([str(i) for i in range(VOCABULARY - 4)], specials)
    half = {
        "type": "transformer",
        "num_layers": shape.encoder_layers,
        "num_heads": shape.heads,
        "embeddings": {"embedding_dim": shape.width, "scale": True, "dropout": DROPOUT},
        "hidden_size": shape.width,
        "ff_size": shape.ff_width,
        "dropout": DROPOUT,
        "layer_norm": "post",
    }
    model = build_model(
        {"encoder": half, "decoder": half, "tied_embeddings": True, "tied_softmax": True}, vocabulary, vocabulary
    )
    model.loss_function = ("crossentropy", SMOOTHING)

    def loss(batch: Batch) -> Tensor:
        found: Tensor = model(
            return_type="loss",
            src=batch.source_BS,
            trg_input=batch.target_BT,
            trg=batch.next_BT,
            src_mask=(batch.source_BS != 1)[:, None],
            trg_mask=(batch.next_BT != 1)[:, None],
            src_length=torch.full((BATCH,), LENGTH),
        )[0]
        return found

    return model.train(), loss


class Stepper:
    """One training step of a contender.

    Args:
        name: one of `CONTENDERS`.
    """

    def __init__(self, size: str, name: str) -> None:
        torch.manual_seed(0)
        shape = TransformerConfig.preset(size, vocab_size=VOCABULARY, dropout=DROPOUT, norm_placement="post")
        self.model, self.loss = CONTENDERS[name](shape)
        is_ours = name == "Regard"
        if is_ours:
            keep_memory()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=is_ours)
        rng = torch.Generator().manual_seed(0)
        # ids start at 4, so that no library treats a token as padding
        source, target, following = (torch.randint(4, VOCABULARY, (BATCH, LENGTH), generator=rng) for _ in range(3))
        # Regard also gets a mask, though nothing is padding, because all others use one
        self.batch = Batch(source, target, following, torch.zeros(BATCH, LENGTH, dtype=torch.bool))

    def __call__(self) -> None:
        """Forward, backward, update; the loss is the mean over tokens."""
        self.optimizer.zero_grad()
        (self.loss(self.batch) / self.batch.next_BT.numel()).backward()
        self.optimizer.step()


class Products:
    """Only matrix products, of the shape with which `regard train` measures the machine's limit."""

    times = 50

    def __init__(self) -> None:
        rows, inner, columns = SHAPES["cpu"]
        self.a, self.b = torch.rand(rows, inner), torch.rand(inner, columns)
        self.flops = self.times * 2 * rows * inner * columns

    def __call__(self) -> None:
        """Run `times` products."""
        for _ in range(self.times):
            self.a @ self.b


def regard(shape: TransformerConfig) -> tuple[nn.Module, Callable[[Batch], Tensor]]:
    """Regard's model and its loss function."""
    model = shape.build()
    return model, lambda batch: translation.loss(model, batch, SMOOTHING)[0]


def torch_transformer(shape: TransformerConfig, default_dropout: bool) -> tuple[nn.Module, Callable[[Batch], Tensor]]:
    """torch's model and its loss function."""
    model = TorchTransformer(shape, default_dropout)
    return model, lambda batch: cross_entropy(model(batch.source_BS, batch.target_BT), batch.next_BT)


def hugging_face(shape: TransformerConfig) -> tuple[nn.Module, Callable[[Batch], Tensor]]:
    """Hugging Face's Marian and its loss function."""
    model = MarianMTModel(MarianConfig.from_dict(write_config(shape))).train()

    def loss(batch: Batch) -> Tensor:
        allowed = batch.source_BS != 0
        found = model(
            input_ids=batch.source_BS, attention_mask=allowed, decoder_input_ids=batch.target_BT, use_cache=False
        )
        return cross_entropy(found.logits, batch.next_BT)

    return model, loss


def cross_entropy(logits_BTV: Tensor, next_BT: Tensor) -> Tensor:
    """Cross-entropy with torch's function, summed over tokens."""
    return F.cross_entropy(logits_BTV.flatten(0, 1), next_BT.flatten(), reduction="sum", label_smoothing=SMOOTHING)


CONTENDERS: dict[str, Callable[[TransformerConfig], Any]] = {
    "Regard": regard,
    "torch.nn.Transformer, dropout as in Regard": lambda shape: torch_transformer(shape, default_dropout=False),
    "torch.nn.Transformer, default dropout": lambda shape: torch_transformer(shape, default_dropout=True),
    "Hugging Face Marian": hugging_face,
    "JoeyNMT": joey,
}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("tiny", "small"), default="small")
    size = parser.parse_args().size
    names = [name for name in CONTENDERS if name != "JoeyNMT" or find_spec("joeynmt")]
    contenders = {name: SeparateProcess(Stepper, size, name) for name in names}
    seconds = interleave({**contenders, "products": SeparateProcess(Products)}, rounds=20)
    alone = seconds.pop("products")
    print(f"{machine()}; {size}")
    print(report(seconds, BATCH * LENGTH, "target tokens"))
    with FlopCounter() as count:
        Stepper(size, "Regard")()
    share, low, high = (count.flops / Products().flops * x for x in ratio(seconds["Regard"], alone))
    print(
        f"\nRegard's matrix products run at {share:.0%} ({low:.0%} to {high:.0%}) of the speed of matrix products alone"
    )


if __name__ == "__main__":
    main()
