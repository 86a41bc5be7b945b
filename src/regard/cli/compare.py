"""`regard compare`: significance test between two translation models."""

import dataclasses
import json
from typing import Annotated

import typer

from regard.cli.options import AsJson, Beam, LengthPenalty, ModelArgument, Reference, Source


def compare(
    first: ModelArgument,
    second: ModelArgument,
    source: Source,
    reference: Reference,
    beam: Beam = 4,
    length_penalty: LengthPenalty = 1.0,
    samples: Annotated[int, typer.Option(min=100, help="Number of bootstrap samples of the test set.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Translate a test set with two models and test the difference with paired bootstrap resampling.

    Examples:

        regard compare runs/a runs/b --source test.en --reference test.de
    """
    from regard.data.text import pairs
    from regard.evaluation import bleu
    from regard.library import load_for

    tests = list(pairs(source, reference))
    sources = [text for text, _ in tests]
    translators = (load_for("compare", model) for model in (first, second))
    one, other = (
        [best[0].text for best in translator.translate(sources, beam=beam, length_penalty=length_penalty)]
        for translator in translators
    )
    for comparison in bleu.compare(one, other, [text for _, text in tests], samples):
        if as_json:
            typer.echo(json.dumps(dataclasses.asdict(comparison)))
            continue
        better = first if comparison.first > comparison.second else second
        verdict = f"{better} is better" if comparison.p_value < 0.05 else "no significant difference"
        typer.echo(
            f"{comparison.metric}  {comparison.first:5.1f}  {comparison.second:5.1f}  "
            f"p = {comparison.p_value:.3f}: {verdict}   {comparison.signature}"
        )
