import numpy as np
import pytest

from pretraining import Numbers, corpus
from regard.data.pretraining import Sentences


@pytest.fixture(scope="module")
def even(tmp_path_factory) -> tuple[Sentences, Numbers]:
    """100 documents of 1 to 59 sentences of 2 tokens."""
    return corpus(tmp_path_factory.mktemp("even"), [[2] * (1 + i * 7 % 59) for i in range(100)])


@pytest.fixture(scope="module")
def uneven(tmp_path_factory) -> tuple[Sentences, Numbers]:
    """Sentences of 1 to 59 tokens."""
    rng = np.random.default_rng(0)
    lengths = [rng.integers(1, 60, size).tolist() for size in rng.integers(1, 40, 20)]
    return corpus(tmp_path_factory.mktemp("uneven"), lengths)
