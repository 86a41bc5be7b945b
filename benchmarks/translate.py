"""Translation speed: Regard, Hugging Face's `generate` and CTranslate2, same weights, same sentences.

    python benchmarks/translate.py

The model is *small* (3+3 layers, width 256, vocabulary 8,000), in Marian's shape, and converted for the others. Its
weights are random and it never predicts the end of a sentence, so that all generate the same number of tokens: 44 for
an input of 12. The outputs are checked to agree. The second table of each shape compares `--engine ct2` (8 bits,
with tokenization) with CTranslate2 called directly with tokens.
"""

import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from transformers import MarianMTModel

from harness import interleave, machine, report
from regard import library
from regard.codecs.subword import END, PAD_ID, SubwordTokenizer
from regard.data.batches import pad
from regard.models.transformer import TransformerConfig
from regard.store.models import tensors
from regard.tasks.translation import Translator

READ, WRITTEN = 12, 44  # tokens; Regard's limit is twice the input length plus 20
SHAPES = ((64, 4), (1, 4), (1, 1))  # number of sentences, beam size


def make(folder: Path) -> None:
    """Save a Regard model with random weights that never ends a sentence."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 7))) for _ in range(20_000)]
    tokenizer = SubwordTokenizer.train("bpe", 8000, words)
    torch.manual_seed(1)
    config = TransformerConfig.preset(
        "small", vocab_size=8000, positions="sinusoidal_split", norm_placement="post", output_bias=True
    )
    model = config.build()
    model.target_embedding.weight.data.mul_(3)  # otherwise the predictions would be nearly uniform
    assert model.output_bias is not None
    model.output_bias.data[: END + 1] = -50
    library.save(folder, config, tensors(model), {"source": tokenizer, "target": tokenizer}, "# Random")


def sentences(tokenizer: SubwordTokenizer, count: int) -> list[str]:
    """Texts of `READ` tokens."""
    rng = random.Random(2)
    found: list[str] = []
    while len(found) < count:
        text = tokenizer.decode([rng.choices(range(300, 8000), k=READ)])[0]
        if len(tokenizer.encode([text])[0]) == READ:
            found.append(text)
    return found


def regard_tokens(ours: Translator, texts: Sequence[str], beam: int) -> list[tuple[int, ...]]:
    """The tokens of Regard's translations."""
    return [found.tokens for (found,) in ours.translate(texts, beam=beam, scores=False)]


@torch.no_grad()
def hugging_face(model: Any, read: Sequence[Sequence[int]], beam: int, n_best: int = 1) -> list[tuple[int, ...]]:
    """The tokens of the translations by `generate`."""
    read_BS = pad(read, PAD_ID, after=END)
    written = model.generate(
        read_BS,
        attention_mask=read_BS != PAD_ID,
        num_beams=beam,
        num_return_sequences=n_best,
        max_length=WRITTEN + 1,
        bad_words_ids=None,
    )
    return [tuple(tokens[1:]) for tokens in written.tolist()]


def direct(engine: Any, read: Sequence[Sequence[str]], beam: int) -> list[list[str]]:
    """The tokens of the translations by CTranslate2 called directly, as text."""
    found = engine.translate_batch(read, beam_size=beam, max_decoding_length=WRITTEN)
    return [result.hypotheses[0] for result in found]


def measure(parent: str, count: int, beam: int) -> None:
    """Print two tables for a batch of `count` sentences."""
    ours, fast = (library.load(name, Translator) for name in (f"{parent}/model", f"ct2:{parent}/int8"))
    texts = sentences(ours.source, count)
    read = ours.source.encode(texts)
    names = ours.source.names(ours.model.config.vocab_size)
    named = [[names[token] for token in tokens] for tokens in read]
    model = MarianMTModel.from_pretrained(f"{parent}/hf").eval()
    engines = {
        kind: ctranslate2.Translator(f"{parent}/{kind}", intra_threads=torch.get_num_threads())
        for kind in ("float32", "int8")
    }
    # the best hypothesis of the beam may differ: only Regard scores the forced end token
    mine, theirs = regard_tokens(ours, texts, beam), hugging_face(model, read, beam, n_best=beam)
    assert {len(tokens) for tokens in (*mine, *theirs)} == {WRITTEN}
    same = sum(tokens in theirs[n * beam : (n + 1) * beam] for n, tokens in enumerate(mine))
    print(f"\n{count} sentences, beam size {beam}; Regard's output is in Hugging Face's beam for {same}\n")
    assert same >= 0.9 * count, "the outputs differ"
    for write in (
        partial(direct, engines["float32"], named),
        partial(direct, engines["int8"], named),
        partial(regard_tokens, fast, texts),
    ):
        assert {len(tokens) for tokens in write(beam)} == {WRITTEN}
    groups: list[dict[str, Callable[[], object]]] = [
        {
            "Regard": partial(regard_tokens, ours, texts, beam),
            "Hugging Face": partial(hugging_face, model, read, beam),
            "CTranslate2, float32": partial(direct, engines["float32"], named, beam),
        },
        {
            "Regard, --engine ct2": partial(regard_tokens, fast, texts, beam),
            "CTranslate2, int8": partial(direct, engines["int8"], named, beam),
        },
    ]
    for contenders in groups:
        print(report(interleave(contenders), count * WRITTEN, "tokens"))


def main() -> None:
    """Measure and print tables."""
    print(machine())
    with tempfile.TemporaryDirectory() as parent:
        make(Path(parent) / "model")
        library.convert(f"{parent}/model", f"hf:{parent}/hf")
        library.convert(f"{parent}/model", f"ct2:{parent}/float32")
        library.convert(f"{parent}/model", f"ct2:{parent}/int8", quantize="int8")
        for count, beam in SHAPES:
            measure(parent, count, beam)


if __name__ == "__main__":
    main()
