"""Which layers of a BERT give the best features? (Devlin et al. 2018, section 5.3, on a tagging task)

The model is frozen. A linear probe for each choice of layers classifies words by the hidden states of their first
subwords; all probes are trained in the same way:

    P(tag of word w) = softmax(W x_w + b)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.conllu import Sentence
from regard.data.tagged import in_pieces
from regard.lab.experiment import Claim, Experiment, Interval, Verdict
from regard.tasks.embedding import Embedder, Join, joined

EPOCHS, BATCH, RATE = 20, 512, 3e-3
LAST = 4  # layers that count as the last ones
LATER = ("last", "second to last", "sum of the last four", "last four side by side")


def choices(layers: int) -> dict[str, tuple[list[int], Join]]:
    """The lectures' choices for a model with `layers` layers: by name, the layers and how they are combined."""
    every, last = list(range(1, layers + 1)), list(range(max(1, layers - LAST + 1), layers + 1))
    return {
        "what goes into the first": ([0], "sum"),
        "last": ([layers], "sum"),
        "sum of all": (every, "sum"),
        "second to last": ([max(0, layers - 1)], "sum"),
        "sum of the last four": (last, "sum"),
        "last four side by side": (last, "concatenate"),
    }


@dataclass(frozen=True)
class Layers(Experiment):
    """Compares the tagging accuracy of choices of layers; later layers should be best."""

    name = "layers"
    claim = Claim(
        "Later layers of BERT give better features than the embeddings that enter the first, and the last four side by "
        "side give better ones than the last alone",
        "Devlin et al. 2018, section 5.3",
    )
    prediction = (
        "The choice with the highest tagging accuracy has later layers only, and the last four layers side by side "
        "have a higher accuracy than the last."
    )

    depth: int
    """Number of layers of the model."""
    hits: Mapping[str, Tensor]
    """Whether each word was tagged correctly, by choice of layers."""

    @classmethod
    def run(cls, encoder: Embedder, train: Sequence[Sentence], valid: Sequence[Sentence], seed: int = 1) -> Self:
        """Trains a linear probe for each choice on `train`, and tags the words of `valid`."""
        labels = {tag: i for i, tag in enumerate(sorted({tag for sentence in train for tag in sentence.tags}))}
        states, targets = zip(*(_words(encoder, part, labels) for part in (train, valid)), strict=True)
        depth, hits = encoder.model.config.layers, {}
        for name, (layers, join) in choices(depth).items():
            # all words of a data set as one long text
            features = [joined(list(x_LND[:, None]), layers, join)[0] for x_LND in states]
            hits[name] = _probe(features, targets, len(labels), seed)
        return cls(depth, hits)

    @property
    def values(self) -> dict[str, float]:
        """The tagging accuracy in percent, by choice of layers."""
        return {name: 100 * float(is_right_N.float().mean()) for name, is_right_N in self.hits.items()}

    @property
    def verdict(self) -> Verdict:
        """Which choice is best, and whether four layers beat one, by a bootstrap over words."""
        four, last = self.hits["last four side by side"].int(), self.hits["last"].int()
        # not the best choice against the last, because the best one is selected on the same words
        found = Interval.bootstrap("last four side by side minus last, in points", (100 * (four - last)).tolist())
        best = max(self.values, key=lambda name: self.values[name])
        reason = f"the best choice is '{best}' with {self.values[best]:.2f} %"
        if self.depth <= LAST:
            return Verdict(None, f"the model has only {self.depth} layers, so the last four are all; {reason}", found)
        if best not in LATER or found.high < 0:
            return Verdict(False, reason, found)
        return Verdict(True if found.low > 0 else None, reason, found)

    def figure(self) -> Any:
        """A dot plot with the accuracy of each choice."""
        from regard.explain import figures

        accuracies = {
            name: Interval.bootstrap(name, (100 * is_right_N.float()).tolist())
            for name, is_right_N in self.hits.items()
        }
        return figures.dots(accuracies, "tagging accuracy, %")


@torch.no_grad()
def _words(encoder: Embedder, sentences: Sequence[Sentence], labels: dict[str, int]) -> tuple[Tensor, Tensor]:
    """The hidden states of each word, (layers + 1, words, width), and the index of its tag."""
    states, tags = [], []
    for indices, found in _read(encoder, [sentence.words for sentence in sentences]):
        for i, (x_LTD, firsts) in zip(indices, found, strict=True):
            states.append(x_LTD[:, firsts])
            # a tag that does not occur in the training data is not a label, so it counts as wrong
            tags += [labels.get(tag, -1) for tag in sentences[i].tags[: len(firsts)]]
    return torch.cat(states, dim=1).float(), torch.tensor(tags)


def _read(
    encoder: Embedder, words: Sequence[Sequence[str]]
) -> Iterator[tuple[list[int], list[tuple[Tensor, list[int]]]]]:
    pieces = in_pieces(encoder.tokenizer, words, encoder.model.limit)
    for indices, batch in encoder.batches([p.encoded for p in pieces], tokens=4096):
        states_LBTD = torch.stack(encoder.model.states(*batch.inputs)).cpu()
        yield indices, [(states_LBTD[:, row], pieces[i].firsts) for row, i in enumerate(indices)]


def _probe(features: Sequence[Tensor], targets: Sequence[Tensor], labels: int, seed: int) -> Tensor:
    """Trains a linear probe on the first features and labels; returns which of the second it predicts correctly."""
    torch.manual_seed(seed)
    mean_D, std_D = features[0].mean(0), features[0].std(0) + 1e-6
    train_ND, valid_ND = ((x_ND - mean_D) / std_D for x_ND in features)
    probe = nn.Linear(train_ND.size(1), labels)
    optimizer = torch.optim.AdamW(probe.parameters(), lr=RATE, weight_decay=0.01)
    rng = np.random.default_rng(seed)
    steps = EPOCHS * -(-len(train_ND) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(EPOCHS):
        for indices in torch.from_numpy(rng.permutation(len(train_ND))).split(BATCH):
            loss = F.cross_entropy(probe(train_ND[indices]), targets[0][indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        is_right_N: Tensor = probe(valid_ND).argmax(1) == targets[1]
    return is_right_N
