"""A small language, and encoders for it."""

from typing import Any

import torch

from helpers import random_model
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
    return random_model(model)


def encoder(head: AnyHead, **changes) -> Any:
    """A pipeline of a BERT with this head."""
    model = bert(head, **changes)
    return system("bert").task_of(model.config).open(model, {"text": TOKENIZER})
