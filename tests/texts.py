"""A small language, and models that read it."""

import torch

from helpers import randomise
from regard.blocks.norms import LayerNorm
from regard.data.wordpiece import WordPiece
from regard.models.bert import AnyHead, Bert, BertConfig

TEXTS = [
    "the brown dog ran to the old house",
    "a small child is eating bread",
    "she plays in the garden, and he is playing too",
    "good food makes people happy",
    "bad weather makes people sad",
]
TOKENIZER = WordPiece.train(150, TEXTS)


def bert(head: AnyHead, **changes) -> Bert:
    torch.manual_seed(1)
    shape = {"width": 8, "heads": 2, "ff_width": 12, "layers": 2, "context": 24, **changes}
    model = BertConfig(vocab_size=TOKENIZER.vocab_size, **shape, head=head).build()
    with torch.no_grad():
        randomise(model)
        for module in model.modules():
            if isinstance(module, LayerNorm):
                module.weight.add_(1)  # so that words differ in what comes of them
    return model.eval()
