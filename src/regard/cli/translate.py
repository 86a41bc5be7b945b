"""`regard translate`: translate texts."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Align, Beam, Engine, LengthPenalty, Model, Texts, json_option
from regard.cli.texts import given
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.documents import Translated
    from regard.tasks.translation import Translation, Translator


def translate(
    texts: Texts = None,
    model: Model = None,
    beam: Beam = 4,
    length_penalty: LengthPenalty = 1.0,
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
        bool, json_option("Print one JSON object per line: words, scores and, with --align, alignment links.")
    ] = False,
) -> None:
    """Translate texts, or standard input line by line. Paragraphs are translated sentence by sentence.

    Examples:

        regard translate "we are eating bread"

        regard translate --model runs/mine < in.txt > out.txt

        regard translate --n-best 3 --json --align "The child picked up a small stone."

        regard translate --sample --temperature 0.7 --n-best 5 "Where is he?"

        regard translate --engine ct2 < in.txt > out.txt

        regard translate --prefix "El niño" "The child picked up a small stone."
    """
    from regard.library import load_for
    from regard.tasks.documents import translate_texts

    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampled = {name: value for name, value in sampling.items() if value is not None}
    if sampled and not sample:
        raise RegardError(
            f"--{next(iter(sampled)).replace('_', '-')} needs --sample; add --sample or remove this option"
        )
    translator: Translator = load_for("translate", model, engine)
    search: dict[str, Any] = {"beam": beam, "n_best": n_best, "length_penalty": length_penalty}

    def write(some: Sequence[str], prefixes: Sequence[str]) -> "list[list[Translation]]":
        if sample:
            return translator.sample(some, samples=n_best, prefixes=prefixes, align=align, **sampled)
        return translator.translate(some, **search, prefixes=prefixes, align=align, scores=as_json)

    for found in translate_texts(given(texts), write, prefix):
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
        {"text": word, "score": score} for word, score in zip(translation.words, translation.word_scores, strict=True)
    ]
    result = {"text": translation.text, "score": translation.score, "truncated": translation.truncated, "words": words}
    if translation.alignment is not None:
        result["source_words"] = translation.alignment.source
        result["alignment"] = translation.alignment.links()
    return result
