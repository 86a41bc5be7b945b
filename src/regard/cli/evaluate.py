"""`regard evaluate` and `regard score`: how good is a model, and how likely is a given translation?"""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.translate import Align, Beam, Penalty

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A run's folder, a model's folder, or a bundled model.")
]
Source = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Lines to translate, plain or .gz.")]
Reference = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Their translations, line by line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def evaluate(
    model: ModelArgument,
    source: Source,
    reference: Reference,
    beam: Beam = 4,
    penalty: Penalty = 1.0,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Compare in lower case, as some papers do.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the translations to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Translate a test set and score it: BLEU and chrF with sacreBLEU's signatures.

    Examples:

        regard evaluate runs/mine --source test.en --reference test.de
    """
    from regard.data.text import pairs
    from regard.evaluation import bleu
    from regard.library import load
    from regard.tasks.documents import one_line

    translator = load(model)
    tests = list(pairs(source, reference))
    found = [best[0].text for best in translator.translate([text for text, _ in tests], beam=beam, penalty=penalty)]
    if output is not None:
        output.write_text("".join(f"{one_line(text)}\n" for text in found), "utf-8")
    scores = bleu.score(found, [text for _, text in tests], lowercase=lowercase)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(scores)))
        return
    typer.echo(f"BLEU   {scores.bleu:5.1f}   {scores.bleu_signature}")
    typer.echo(f"chrF   {scores.chrf:5.1f}   {scores.chrf_signature}")
    typer.echo(f"exact  {scores.exact:5.1f}   of {scores.sentences:,} sentences")


def score(
    model: ModelArgument,
    source: Source,
    target: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Translations to judge, line by line.")],
    align: Align = False,
    as_json: AsJson = False,
) -> None:
    """Log-probability of given translations, one a line; and what aligns with what in them.

    Examples:

        regard score runs/mine --source test.en --target test.de

        regard score runs/mine --source test.en --target test.de --align --json
    """
    from regard.data.text import pairs
    from regard.library import load

    tests = list(pairs(source, target))
    translator = load(model)
    sources, targets = [one for one, _ in tests], [other for _, other in tests]
    scores = translator.score(sources, targets)
    alignments = translator.align(sources, targets) if align else [None] * len(tests)
    for (one, other), value, alignment in zip(tests, scores, alignments, strict=True):
        if as_json:
            links = {} if alignment is None else {"alignment": alignment.links()}
            typer.echo(json.dumps({"source": one, "target": other, "score": value, **links}, ensure_ascii=False))
        else:
            typer.echo(f"{value:.4f}" + ("" if alignment is None else f" ||| {alignment.pharaoh()}"))
