"""`regard evaluate`: score a model on a test set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import AsJson, ModelArgument, TestData, TestReference, TestSource, output_option
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.evaluation import Evaluable


def evaluate(
    model: ModelArgument,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Translators: beam, length_penalty, lowercase; classifiers: task, or texts and label; taggers: kind, "
            "column.",
        ),
    ] = None,
    data: TestData = None,
    source: TestSource = None,
    reference: TestReference = None,
    output: Annotated[Path | None, output_option("Write the model's predictions to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on a test set.

    BLEU and chrF, a task's metrics and the F1 of tags or spans are in percent, in JSON, too; or perplexity.

    Examples:

        regard evaluate runs/mine --source test.en --reference test.de

        regard evaluate runs/mine beam=1 lowercase=true --source test.en --reference test.de

        regard evaluate runs/sst2 task=sst2 --data dev.tsv

        regard evaluate runs/pairs texts=premise,hypothesis label=gold --data dev.csv

        regard evaluate runs/pos --data dev.conllu

        regard evaluate runs/names --data test.iob

        regard evaluate runs/bard --data valid.txt
    """
    from regard.folders import expect_parent
    from regard.library import load_for

    if output is not None:
        expect_parent(output)
    loaded: Evaluable[Any] = load_for("evaluate", model)
    chosen = loaded.evaluated_with.parse(settings or [])
    given = {"data": data, "source": source, "reference": reference}
    found = loaded.evaluate({role: path for role, path in given.items() if path is not None}, chosen)
    for warning in found.warnings:
        typer.echo(warning, err=True)
    typer.echo(json.dumps(found.scores) if as_json else "\n".join(found.lines))
    if output is None:
        return
    if found.predictions is None:
        raise RegardError(f"{loaded.evaluated_with.model} has no predictions to write; remove --output")
    output.write_text("".join(f"{line}\n" for line in found.predictions), "utf-8")
