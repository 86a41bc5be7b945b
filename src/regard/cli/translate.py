"""`regard translate`: translate texts."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import BEAM, LENGTH_PENALTY, Align, Engine, File, Model, Texts, json_option
from regard.cli.texts import chunks
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.documents import Translated
    from regard.tasks.translation import Translator
    from regard.tasks.translation_types import Translation

CHUNK_SIZE = 500  # texts at once


def translate(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    beam: Annotated[int | None, BEAM] = None,
    length_penalty: Annotated[float | None, LENGTH_PENALTY] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Number of translations per text.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Sample translations instead of using beam search.")] = False,
    temperature: Annotated[float | None, typer.Option(help="With --sample: below 1 less random, above 1 more.")] = None,
    top_k: Annotated[
        int | None, typer.Option(help="With --sample: sample only from the k most probable tokens.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="With --sample: sample only from the most probable tokens whose probabilities add up to this value."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="With --sample: seed of the random number generator.")] = None,
    prefix: Annotated[str, typer.Option(help="Words that the translation must start with.")] = "",
    align: Align = False,
    engine: Engine = "torch",
    as_json: Annotated[
        bool,
        json_option("Print one JSON object per line: words, log-probabilities and, with --align, alignment links."),
    ] = False,
) -> None:
    """Translate texts, or the lines of a file or of standard input. Paragraphs are translated sentence by sentence.

    Examples:

        regard translate "we are eating bread"

        regard translate --model runs/mine --file in.txt > out.txt

        regard translate --n-best 3 --json --align "The child picked up a small stone."

        regard translate --sample --temperature 0.7 --n-best 5 "Where is he?"

        regard translate --engine ct2 --file in.txt > out.txt

        regard translate --prefix "El niño" "The child picked up a small stone."
    """
    from regard.library import load_for
    from regard.tasks.documents import translate_texts

    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampled = {name: value for name, value in sampling.items() if value is not None}
    searching: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty}
    searched = {name: value for name, value in searching.items() if value is not None}
    if sampled and not sample:
        raise RegardError(
            f"--{next(iter(sampled)).replace('_', '-')} needs --sample; add --sample or remove this option"
        )
    if searched and sample:
        raise RegardError(
            f"--{next(iter(searched)).replace('_', '-')} applies only to beam search; remove it or --sample"
        )
    translator: Translator = load_for("translate", model, engine)

    def write(some: Sequence[str], prefixes: Sequence[str]) -> "list[list[Translation]]":
        if sample:
            return translator.sample(some, samples=n_best, prefixes=prefixes, align=align, **sampled)
        return translator.translate(some, n_best=n_best, prefixes=prefixes, align=align, scores=as_json, **searched)

    for chunk in chunks(texts, file, CHUNK_SIZE):
        for found in translate_texts(chunk, write, prefix):
            if as_json:
                typer.echo(json.dumps(_as_json(found), ensure_ascii=False))
                continue
            for rank in found.ranks() if found.found else range(n_best):
                typer.echo(found.translation(rank) + (f" ||| {found.pharaoh(rank)}" if align else ""))


def _as_json(found: "Translated") -> dict[str, Any]:
    best = found.translation(0)
    sentences = [
        {"source": source, "translations": [_translation(translation) for translation in translations]}
        for source, translations in zip(found.document.sentences, found.found, strict=True)
    ]
    return {"source": found.text, "translation": best, "sentences": sentences}


def _translation(translation: "Translation") -> dict[str, Any]:
    words = [
        {"text": word, "log_probability": log}
        for word, log in zip(translation.words, translation.word_log_probabilities, strict=True)
    ]
    result = {
        "text": translation.text,
        "log_probability": translation.log_probability,
        "mean_log_probability": translation.mean_log_probability,
        "truncated": translation.truncated,
        "words": words,
        "end_log_probability": translation.end_log_probability,
    }
    if translation.alignment is not None:
        result["source_words"] = translation.alignment.source
        result["alignment"] = translation.alignment.links()
    return result
