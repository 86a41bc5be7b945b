"""`regard evaluate` and `regard score`: how good is a model, and how likely is a given translation?"""

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.translate import Align, Beam, Penalty
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.data.conllu import Column
    from regard.tasks.classification import Classifier
    from regard.tasks.completion import Completer
    from regard.tasks.tagging import PieceTagger, WordTagger
    from regard.tasks.translation import Translator

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A run's folder, a model's folder, or a bundled model.")
]
Source = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Lines to translate, plain or .gz.")]
Reference = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Their translations, line by line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def evaluate(
    model: ModelArgument,
    source: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Translators: lines to translate, plain or .gz.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Translators: their translations, line by line.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Classifiers: a table of texts and labels; taggers: CoNLL-U."),
    ] = None,
    text: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Language models: a text, plain or .gz.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="Classifiers: the table is of this task of GLUE (cola, sst2, mrpc, ..., mnli-mm, ax)."),
    ] = None,
    texts: Annotated[
        str, typer.Option(help="Classifiers, without --task: the table's column of text, or both, with a comma.")
    ] = "text",
    label: Annotated[str, typer.Option(help="Classifiers, without --task: the column of labels.")] = "label",
    column: Annotated[
        Literal["upos", "xpos"], typer.Option(help="Taggers: the column of tags that the model was trained on.")
    ] = "upos",
    beam: Beam = 4,
    penalty: Penalty = 1.0,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Compare in lower case, as some papers do.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write what the model says to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try a model on a test set: BLEU and chrF, the metrics of a task, F1 of tags, or how probable a text is.

    Examples:

        regard evaluate runs/mine --source test.en --reference test.de

        regard evaluate runs/sst2 --task sst2 --data dev.tsv

        regard evaluate runs/pos --data dev.conllu

        regard evaluate runs/bard --text valid.txt
    """
    from regard.folders import expect_parent
    from regard.library import load
    from regard.tasks.classification import Classifier
    from regard.tasks.completion import Completer
    from regard.tasks.tagging import PieceTagger, WordTagger
    from regard.tasks.translation import Translator

    if output is not None:
        expect_parent(output)
    found = load(model)
    if isinstance(found, Completer):
        if text is None or any((source, reference, data, output)):
            raise RegardError("a language model is tried with --text alone; there is nothing to write but its scores")
        _scored(found, text, as_json)
        return
    if text is not None:
        raise RegardError("--text is for language models; this one is tried with the options for its kind, see --help")
    if isinstance(found, Translator):
        if source is None or reference is None or data is not None:
            raise RegardError("a translator is tried with --source and --reference, and no --data")
        said = _translated(found, source, reference, beam, penalty, lowercase, as_json)
    elif data is None:
        raise RegardError(f"a model of kind '{found.model.config.kind}' is tried with --data")
    elif isinstance(found, Classifier):
        said = _classified(found, data, task, texts.split(","), label, as_json)
    elif isinstance(found, PieceTagger | WordTagger):
        if task is not None:
            raise RegardError(f"--task {task} is for classifiers; this model tags words")
        said = _tagged(found, data, column, as_json)
    else:
        raise RegardError(f"{model} has no task to be tried at; fine-tune it first: regard train bert/glue")
    if output is not None:
        output.write_text("".join(f"{line}\n" for line in said), "utf-8")


def _translated(
    translator: "Translator", source: Path, reference: Path, beam: int, penalty: float, lowercase: bool, as_json: bool
) -> list[str]:
    from regard.data.text import pairs
    from regard.evaluation import bleu
    from regard.tasks.documents import one_line

    tests = list(pairs(source, reference))
    texts = [text for text, _ in tests]
    found = [best[0].text for best in translator.translate(texts, beam=beam, penalty=penalty, scores=False)]
    scores = bleu.score(found, [text for _, text in tests], lowercase=lowercase)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(scores)))
    else:
        typer.echo(f"BLEU   {scores.bleu:5.1f}   {scores.bleu_signature}")
        typer.echo(f"chrF   {scores.chrf:5.1f}   {scores.chrf_signature}")
        typer.echo(f"exact  {scores.exact:5.1f}   of {scores.sentences:,} sentences")
    return [one_line(text) for text in found]


def _classified(
    classifier: "Classifier", data: Path, task: str | None, columns: list[str], label: str, as_json: bool
) -> list[str]:
    from regard.data import glue
    from regard.data.tables import read_table
    from regard.evaluation.glue import scores

    if task is None:
        question = glue.own_question(columns, label, classifier.labels)
        examples = list(read_table(data, columns, label, not classifier.labels, classifier.labels))
    elif task in glue.TASKS:
        question = glue.TASKS[task]
        examples = list(glue.read(question, data, warn=partial(typer.echo, err=True)))
    else:
        raise RegardError(f"--task {task}: no such task; there are {', '.join(glue.TASKS)}")
    # models of others may have numbers for names; they are those of GLUE
    names: dict[str | float, str] = {f"LABEL_{i}": name for i, name in enumerate(question.labels)}
    if {names.get(name, name) for name in classifier.labels} != set(question.labels):
        known = [", ".join(labels) or "a number" for labels in (classifier.labels, question.labels)]
        raise RegardError(f"the model says {known[0]}; the task asks for {known[1]}")
    if not examples:
        raise RegardError(f"{data}: there are no texts to try the model on")
    texts, seconds, gold = zip(*examples, strict=True)
    verdicts = classifier.classify(texts, seconds)
    said = [names.get(verdict.said, verdict.said) for verdict in verdicts]
    found = scores(question, said, gold)  # type: ignore[arg-type]
    cut = sum(verdict.cut for verdict in verdicts)
    if as_json:
        typer.echo(json.dumps({**found, "texts": len(texts), "cut": cut}))
    else:
        for name, value in found.items():
            typer.echo(f"{name:<10}{100 * value:5.1f}")
        typer.echo(f"{len(texts):,} texts" + (f", {cut:,} of them too long and cut" if cut else ""))
    return [str(value) for value in said]


def _tagged(tagger: "PieceTagger | WordTagger", data: Path, column: "Column", as_json: bool) -> list[str]:
    from regard.data.conllu import sentences
    from regard.evaluation.tagging import scores

    tests = list(sentences(data, column))
    if not {tag for sentence in tests for tag in sentence.tags} & set(tagger.labels):
        raise RegardError(f"{data}: none of its tags in {column} is known to the model; try the other --column")
    given = [[tag or "?" for tag in tags] for tags in tagger.tag([sentence.words for sentence in tests])]
    found = scores([sentence.tags for sentence in tests], given)
    if as_json:
        tags = {tag: dataclasses.asdict(score) for tag, score in found["tags"].items()}
        typer.echo(json.dumps({**found, "tags": tags}))
    else:
        typer.echo(f"accuracy  {100 * found['accuracy']:6.2f}\nmacro F1  {100 * found['macro_f1']:6.2f}\n")
        typer.echo("tag     precision  recall      F1   words")
        for tag, score in found["tags"].items():
            shares = (100 * value for value in (score.precision, score.recall, score.f1))
            typer.echo("{:<8}{:9.1f} {:7.1f} {:7.1f} {:7,}".format(tag, *shares, score.count))
    return [" ".join(tags) for tags in given]


def _scored(completer: "Completer", text: Path, as_json: bool) -> None:
    from regard.data.text import running

    scores = completer.measure("".join(running(text)))
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(scores)))
    else:
        typer.echo(f"loss           {scores.loss:8.4f}   a token; {scores.tokens:,} tokens")
        typer.echo(f"perplexity     {scores.perplexity:8.2f}")
        typer.echo(f"bits per byte  {scores.bits_per_byte:8.4f}   {scores.bytes:,} bytes")


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
    from regard.library import load_for

    tests = list(pairs(source, target))
    translator = load_for("score", model)
    sources, targets = [one for one, _ in tests], [other for _, other in tests]
    scores = translator.score(sources, targets)
    alignments = translator.align(sources, targets) if align else [None] * len(tests)
    for (one, other), value, alignment in zip(tests, scores, alignments, strict=True):
        if as_json:
            links = {} if alignment is None else {"alignment": alignment.links()}
            typer.echo(json.dumps({"source": one, "target": other, "score": value, **links}, ensure_ascii=False))
        else:
            typer.echo(f"{value:.4f}" + ("" if alignment is None else f" ||| {alignment.pharaoh()}"))
