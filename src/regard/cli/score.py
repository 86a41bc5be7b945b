"""`regard score`: log-probabilities of given translations."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Align, AsJson, ModelArgument, Source


def score(
    model: ModelArgument,
    source: Source,
    target: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Translations to score, line by line.")],
    align: Align = False,
    as_json: AsJson = False,
) -> None:
    """Print the log-probabilities of given translations.

    One per line; with --align, also their word alignments. The log-probability is that of the whole translation.

    Examples:

        regard score runs/mine --source test.en --target test.de

        regard score runs/mine --source test.en --target test.de --align --json
    """
    from regard.data.text import pairs
    from regard.library import load_for

    tests = list(pairs(source, target))
    translator = load_for("score", model)
    sources, targets = [one for one, _ in tests], [other for _, other in tests]
    scores = translator.score(sources, targets)
    counts = [len(tokens) + 1 for tokens in translator.target.encode(targets)]  # with the end token
    alignments = translator.align(sources, targets) if align else [None] * len(tests)
    for (one, other), value, count, alignment in zip(tests, scores, counts, alignments, strict=True):
        if as_json:
            found = {"log_probability": value, "mean_log_probability": value / count}
            links = {} if alignment is None else {"alignment": alignment.links()}
            typer.echo(json.dumps({"source": one, "target": other, **found, **links}, ensure_ascii=False))
        else:
            typer.echo(f"{value:.4f}" + ("" if alignment is None else f" ||| {alignment.pharaoh()}"))
