"""A small language, and models that read it."""

from typing import Any

import torch

from helpers import lively
from regard.codecs.wordpiece import WordPiece
from regard.models.bert import Bert, BertConfig
from regard.models.heads import AnyHead
from regard.systems import system

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
    return lively(model)


def opened(head: AnyHead, **changes) -> Any:
    """A BERT with that head, ready to do what it is for."""
    model = bert(head, **changes)
    return system("bert").task_of(model.config).open(model, {"text": TOKENIZER})
