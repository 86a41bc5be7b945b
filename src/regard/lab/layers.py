"""Which layers of a BERT make the best features? (Devlin et al. 2018, section 5.3, on a tagging task)

The model stays as it is. Words are told apart by the vectors that some of its layers give their first piece, with one
linear layer for each choice of layers, trained under the same conditions:

    P(tag of word w) = softmax(W x_w + b)
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.conllu import Sentence
from regard.data.tagged import in_pieces
from regard.tasks.encoding import Encoder, Join, joined

EPOCHS, BATCH, RATE = 20, 512, 3e-3


def choices(layers: int) -> dict[str, tuple[list[int], Join]]:
    """The lectures' choices for a model of so many layers, each with its layers and what becomes of them."""
    every, last = list(range(1, layers + 1)), list(range(max(1, layers - 3), layers + 1))
    return {
        "what goes into the first": ([0], "sum"),
        "last": ([layers], "sum"),
        "sum of all": (every, "sum"),
        "second to last": ([max(0, layers - 1)], "sum"),
        "sum of the last four": (last, "sum"),
        "last four side by side": (last, "concatenate"),
    }


def study(encoder: Encoder, train: Sequence[Sentence], valid: Sequence[Sentence], seed: int = 1) -> dict[str, float]:
    """The share of words of `valid` that are tagged right, in percent, by choice of layers."""
    labels = {tag: i for i, tag in enumerate(sorted({tag for sentence in train for tag in sentence.tags}))}
    states, answers = zip(*(_words(encoder, part, labels) for part in (train, valid)), strict=True)
    result = {}
    for name, (layers, join) in choices(encoder.model.config.layers).items():
        # all words of a part as one long text
        features = [joined(list(x_LND[:, None]), layers, join)[0] for x_LND in states]
        result[name] = _probe(features, answers, len(labels), seed)
    return result


@torch.no_grad()
def _words(encoder: Encoder, sentences: Sequence[Sentence], labels: dict[str, int]) -> tuple[Tensor, Tensor]:
    """For each word its vectors after each layer, (layers + 1, words, width), and the number of its tag."""
    states, tags = [], []
    for indices, found in _read(encoder, [sentence.words for sentence in sentences]):
        for i, (x_LTD, firsts) in zip(indices, found, strict=True):
            states.append(x_LTD[:, firsts])
            # a tag that was never seen in training is no label: it counts as wrong
            tags += [labels.get(tag, -1) for tag in sentences[i].tags[: len(firsts)]]
    return torch.cat(states, dim=1).float(), torch.tensor(tags)


def _read(
    encoder: Encoder, words: Sequence[Sequence[str]]
) -> Iterator[tuple[list[int], list[tuple[Tensor, list[int]]]]]:
    pieces = in_pieces(encoder.tokenizer, words, encoder.model.limit)
    for indices, batch in encoder.batches([p.encoded for p in pieces], tokens=4096):
        states_LBTD = torch.stack(encoder.model.states(*batch.inputs)).cpu()
        yield indices, [(states_LBTD[:, row], pieces[i].firsts) for row, i in enumerate(indices)]


def _probe(features: Sequence[Tensor], answers: Sequence[Tensor], labels: int, seed: int) -> float:
    """Trains a linear layer on the first features and answers; gives its accuracy on the second."""
    torch.manual_seed(seed)
    mean_D, spread_D = features[0].mean(0), features[0].std(0) + 1e-6
    train_ND, valid_ND = ((x_ND - mean_D) / spread_D for x_ND in features)
    probe = nn.Linear(train_ND.size(1), labels)
    optimizer = torch.optim.AdamW(probe.parameters(), lr=RATE, weight_decay=0.01)
    chance = np.random.default_rng(seed)
    steps = EPOCHS * -(-len(train_ND) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(EPOCHS):
        for indices in torch.from_numpy(chance.permutation(len(train_ND))).split(BATCH):
            loss = F.cross_entropy(probe(train_ND[indices]), answers[0][indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return 100 * float((probe(valid_ND).argmax(1) == answers[1]).float().mean())
