"""`regard complete`: a text in, what it goes on with out."""

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.options import Model, json_option
from regard.cli.texts import given
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.completion import Completion

ESCAPES = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}


def complete(
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="PROMPT", help='A text to go on with, "" for none; without it, standard input.'),
    ] = None,
    model: Model = None,
    tokens: Annotated[int, typer.Option(min=1, help="How many to write, at most.")] = 200,
    samples: Annotated[int | None, typer.Option(min=1, help="How many texts to draw.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 less daring, above more; 0: the likeliest.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from so many likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest with this share only.")] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Draw only what is at least this share as likely as the likeliest.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1, what was there already is less likely.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help=r"End before this string, \n being a line break; may be given again.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the first try, the next have the next; 1 unless given.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Instead of drawing, search with so many at a time.")] = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="With --beam: how many texts to give.")] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(min=0, help="With --beam: above 1, longer texts are preferred; below it, shorter ones."),
    ] = None,
    overflow: Annotated[
        Literal["error", "slide"],
        typer.Option(help="A text too long for the model: again and again its older half is forgotten, or an error."),
    ] = "slide",
    as_json: Annotated[bool, json_option("A JSON object a line, with the log-probability of each token.")] = False,
) -> None:
    r"""Go on with a text. One try is shown while it is written; the last line break of standard input does not count.

    Examples:

        regard complete --model runs/bard "ROMEO:"

        regard complete --model runs/bard "ROMEO:" --samples 10 --temperature 0.8 --top-k 50 --top-p 0.95 --seed 1

        regard complete --model runs/bard "ROMEO:" --stop "\n\n" --tokens 1000 --overflow error

        regard complete --model runs/gpt2 --beam 4 --n-best 3 --tokens 20 --json < prompt.txt
    """
    from regard.library import load_for

    stops = [re.sub(r"\\[nt\\]", lambda found: ESCAPES[found[0]], text) for text in stop or ()]
    draws: dict[str, Any] = {
        "samples": samples,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "stop": stops or None,
        "seed": seed,
    }
    searches: dict[str, Any] = {"n_best": n_best, "length_penalty": length_penalty}
    drawn, searched = ({k: v for k, v in some.items() if v is not None} for some in (draws, searches))
    if beam is None and searched:
        raise RegardError(f"--{next(iter(searched)).replace('_', '-')} is for --beam; add it, or leave this out")
    if beam is not None and drawn:
        raise RegardError(
            f"--{next(iter(drawn)).replace('_', '-')} is for texts that are drawn; leave it or --beam out"
        )
    completer = load_for("complete", model)
    if prompt is None:
        prompt = "\n".join(given())
    if overflow == "slide" and completer.slides(prompt, tokens):
        about = (
            f"the model sees {completer.model.limit} tokens at a time; when they are full, it forgets the older half"
        )
        typer.echo(f"regard: {about}", err=True)
    common: dict[str, Any] = {"tokens": tokens, "overflow": overflow}
    if beam is None and samples in (None, 1) and not as_json:
        drawn.pop("samples", None)
        for text in completer.stream(prompt, **common, **drawn):
            typer.echo(text, nl=False)
        typer.echo()
        return
    if beam is None:
        found = completer.complete(prompt, **common, **drawn)
    else:
        found = completer.best(prompt, beam=beam, **common, **searched)
    for completion in found:
        if as_json:
            typer.echo(json.dumps(_as_json(prompt, completion), ensure_ascii=False))
            continue
        if len(found) > 1:
            typer.echo(
                f"--- score {completion.score:.3f}" if completion.seed is None else f"--- seed {completion.seed}"
            )
        typer.echo(completion.text)


def _as_json(prompt: str, completion: "Completion") -> dict[str, Any]:
    tokens = [
        {"token": token, "piece": piece, "log_probability": score}
        for token, piece, score in zip(completion.tokens, completion.pieces, completion.token_scores, strict=True)
    ]
    about = {
        "text": completion.text,
        "seed": completion.seed,
        "score": completion.score,
        "finish_reason": completion.finish_reason,
    }
    return {"prompt": prompt, **about, "tokens": tokens}
