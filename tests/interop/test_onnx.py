"""Models in ONNX Runtime, compared with the same models in torch."""

from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from helpers import assert_same, random_model
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
def test_outputs_equal_torch_for_any_batch_size_and_length(tmp_path: Path, head) -> None:
    name = save(tmp_path / "mine", HEADS[head], activation="gelu" if head == "vectors" else "gelu_tanh")
    assert library.convert(name, f"onnx:{tmp_path / 'out'}").startswith("outputs differ by up to ")
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


def test_an_export_with_different_outputs_is_refused_and_writes_no_files(tmp_path: Path, monkeypatch) -> None:
    from regard.interop import onnx

    name = save(tmp_path / "mine", NoHead())

    def export_without_padding(model, example, path, **about) -> None:
        example = example[0].fill_(5), example[1]
        model.pad = 7
        original(model, example, path, **about)
        model.pad = TOKENIZER.pad

    original = torch.onnx.export
    monkeypatch.setattr(torch.onnx, "export", export_without_padding)
    with pytest.raises(ValueError, match=f"more than {onnx.TOLERANCE}; the export is refused"):
        library.convert(name, f"onnx:{tmp_path / 'out'}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_other_models_and_int8_are_refused(tmp_path: Path) -> None:
    tokenizer = SubwordTokenizer.train("bpe", 280, TEXTS)
    model = random_model(
        TransformerConfig(vocab_size=tokenizer.vocab_size, width=8, heads=2, ff_width=8).build()
    ).float()
    library.save(
        tmp_path / "mine", model.config, library.tensors(model), {"source": tokenizer, "target": tokenizer}, ""
    )
    with pytest.raises(
        ValueError, match="of kind 'transformer' cannot be exported to ONNX; export an encoder such as BERT"
    ):
        library.convert(str(tmp_path / "mine"), f"onnx:{tmp_path / 'out'}")
    with pytest.raises(ValueError, match="onnx:out cannot be quantized: only CTranslate2 exports can"):
        library.convert(str(tmp_path / "mine"), "onnx:out", quantize="int8")


def test_rotary_positions_are_refused(tmp_path: Path) -> None:
    from regard.interop import onnx

    model = bert(NoHead()).float()
    model.layers[0].attention.rotary = Rotary(4)
    with pytest.raises(ValueError, match="cannot be exported to ONNX: their rotary positions use complex numbers"):
        onnx.write(tmp_path, Embedder(model, TOKENIZER))
    assert not list(tmp_path.iterdir())
