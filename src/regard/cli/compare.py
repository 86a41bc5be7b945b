"""`regard compare`: significance tests between models on the same test set."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import AsJson, TestData, TestReference, TestSource
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.evaluation.comparison import Comparison
    from regard.tasks.evaluation import Evaluable, EvaluatedWith, Evaluation

SIGNIFICANT = 0.05
SETTING = re.compile(r"[a-z_]+=")


def compare(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL|KEY=VALUE",
            help="Two or more models, as for evaluate; the first is the baseline. Settings are those of evaluate.",
        ),
    ],
    data: TestData = None,
    source: TestSource = None,
    reference: TestReference = None,
    samples: Annotated[int, typer.Option(min=100, help="Number of samples of the significance test.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Compare models on the same test set.

    All are evaluated, and tested for significant differences from the first.

    Translators are tested with paired bootstrap resampling, other models with a paired permutation test.

    Examples:

        regard compare runs/a runs/b --source test.en --reference test.de

        regard compare runs/a runs/b runs/c beam=1 --source test.en --reference test.de

        regard compare runs/sst2 runs/other task=sst2 --data dev.tsv

        regard compare runs/pos runs/tagger --data dev.conllu

        regard compare runs/bard runs/ten-minutes --data valid.txt
    """
    models = [argument for argument in arguments if not SETTING.match(argument)]
    settings = [argument for argument in arguments if SETTING.match(argument)]
    if len(models) < 2:
        raise RegardError(f"compare needs at least two models, got {len(models)}; to score one, use regard evaluate")
    files = {"data": data, "source": source, "reference": reference}
    given = {role: path for role, path in files.items() if path is not None}
    comparisons = _compared(models, settings, given, samples)
    if as_json:
        rows = [[*zip(models, each.scores, each.p_values, strict=True)] for each in comparisons]
        metrics = [
            {
                "metric": each.metric,
                "lower_is_better": each.lower_is_better,
                "signature": each.signature or None,
                "models": [{"model": model, "score": score, "p_value": p} for model, score, p in row],
            }
            for each, row in zip(comparisons, rows, strict=True)
        ]
        typer.echo(json.dumps({"baseline": models[0], "samples": samples, "metrics": metrics}))
        return
    typer.echo("\n".join(_table(models, comparisons)))


def _compared(
    models: Sequence[str], settings: Sequence[str], files: dict[str, Path], samples: int
) -> "list[Comparison]":
    """Evaluates the models one after the other, so that only one at a time is in memory."""
    from regard.library import load_for

    kinds: list[EvaluatedWith[Any]] = []
    found: list[Evaluation] = []
    for model in models:
        loaded: Evaluable[Any] = load_for("compare", model)
        kinds.append(loaded.evaluated_with)
        if kinds[-1] != kinds[0]:
            message = f"{models[0]} is {kinds[0].model}, {model} is {kinds[-1].model}; compare models of one task"
            raise RegardError(message)
        found.append(loaded.evaluate(files, kinds[0].parse(settings)))
    for warning in found[0].warnings:
        typer.echo(warning, err=True)
    return kinds[0].compare([each.examples for each in found], samples)


def _table(models: Sequence[str], comparisons: "Sequence[Comparison]") -> list[str]:
    """One row for each metric and model."""
    lines = [("metric", "model", "score", "p", "")]
    for each in comparisons:
        for model, score, p in zip(models, each.scores, each.p_values, strict=True):
            row = each.metric, model, f"{score:#.4g}"
            lines.append((*row, "", "baseline") if p is None else (*row, f"{p:.3f}", _verdict(each, score, p)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        f"{metric:<{widths[0]}}  {model:<{widths[1]}}  {score:>{widths[2]}}  {p:>{widths[3]}}  {verdict}".rstrip()
        for metric, model, score, p, verdict in lines
    ]
    signatures = [f"{each.metric}: {each.signature}" for each in comparisons if each.signature]
    return [*texts, *([""] if signatures else []), *signatures]


def _verdict(each: "Comparison", score: float, p_value: float) -> str:
    if p_value >= SIGNIFICANT:
        return "no significant difference"
    return "better" if (score > each.scores[0]) != each.lower_is_better else "worse"
