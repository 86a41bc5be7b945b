"""Models that ONNX Runtime runs, beside the same models run by torch."""

from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from helpers import assert_same, lively
from regard import library
from regard.blocks.positions import Rotary
from regard.codecs.subword import SubwordTokenizer
from regard.codecs.wordpiece import WordPiece
from regard.data.sequences import text_batch
from regard.models.heads import AnyHead, ClassificationHead, NoHead, PretrainingHead, RegressionHead, TaggingHead
from regard.models.transformer import TransformerConfig
from regard.tasks.embedding import Embedder
from texts import TEXTS, TOKENIZER, bert

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

HEADS: dict[str, AnyHead] = {
    "vectors": NoHead(),
    "classes": ClassificationHead(labels=("bad", "good", "so so")),
    "a number": RegressionHead(),
    "tags": TaggingHead(labels=("NOUN", "VERB")),
    "words": PretrainingHead(),
}


def save(folder: Path, head: AnyHead, **changes: Any) -> str:
    model = bert(head, **changes).float()
    library.save(folder, model.config, library.tensors(model), {"text": TOKENIZER}, "")
    return str(folder)


@pytest.mark.parametrize("head", HEADS)
def test_it_says_what_torch_says_to_texts_of_any_number_and_length(tmp_path: Path, head) -> None:
    name = save(tmp_path / "mine", HEADS[head], activation="gelu" if head == "vectors" else "gelu_tanh")
    assert library.convert(name, f"onnx:{tmp_path / 'out'}").startswith("answers within ")
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "model.onnx"))
    mine, tokenizer = regard.load(name), WordPiece.load(tmp_path / "out" / "tokenizer.json")
    for texts in (TEXTS, TEXTS[:1], ["", TEXTS[2]]):
        batch = text_batch(tokenizer, mine.encode(texts, [None, *texts[1:]]))
        tokens = batch.tokens_BT
        (found,) = session.run(None, {"tokens": tokens.numpy(), "segments": batch.segments_BT.numpy()})
        expected = mine.model(*batch.inputs).detach()
        of_texts = head in ("classes", "a number")
        # predictions for padding do not count
        kept = torch.ones(len(texts), dtype=torch.bool) if of_texts else tokens != tokenizer.pad
        assert_same(torch.from_numpy(found)[kept], (expected[:, 0] if of_texts else expected)[kept], 1e-4)
    assert session.get_outputs()[0].name == ("vectors" if head == "vectors" else "answers")


def test_what_differs_is_refused_and_nothing_is_written(tmp_path: Path, monkeypatch) -> None:
    from regard.interop import onnx

    name = save(tmp_path / "mine", NoHead())

    def traced_without_padding(model, example, path, **about) -> None:
        example = example[0].fill_(5), example[1]
        model.pad = 7
        original(model, example, path, **about)
        model.pad = TOKENIZER.pad

    original = torch.onnx.export
    monkeypatch.setattr(torch.onnx, "export", traced_without_padding)
    with pytest.raises(ValueError, match=f"more than {onnx.NEAR}; the export is refused"):
        library.convert(name, f"onnx:{tmp_path / 'out'}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_other_models_and_eight_bits_are_refused(tmp_path: Path) -> None:
    tokenizer = SubwordTokenizer.train("bpe", 280, TEXTS)
    model = lively(TransformerConfig(vocab_size=tokenizer.vocab_size, width=8, heads=2, ff_width=8).build()).float()
    library.save(
        tmp_path / "mine", model.config, library.tensors(model), {"source": tokenizer, "target": tokenizer}, ""
    )
    with pytest.raises(ValueError, match="of kind 'transformer' are not exported to ONNX; encoders such as BERT are"):
        library.convert(str(tmp_path / "mine"), f"onnx:{tmp_path / 'out'}")
    with pytest.raises(ValueError, match="only exports for CTranslate2 are quantized, and onnx:out is none"):
        library.convert(str(tmp_path / "mine"), "onnx:out", quantize="int8")


def test_rotary_positions_are_refused(tmp_path: Path) -> None:
    from regard.interop import onnx

    model = bert(NoHead()).float()
    model.layers[0].attention.rotary = Rotary(4)
    with pytest.raises(ValueError, match="are not exported to ONNX: their rotary positions are complex numbers"):
        onnx.write(tmp_path, Embedder(model, TOKENIZER))
    assert not list(tmp_path.iterdir())
