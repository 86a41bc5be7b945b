"""`regard complete`: continue a text with a language model."""

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
        typer.Argument(metavar="PROMPT", help='Text to continue (may be ""); default: standard input.'),
    ] = None,
    model: Model = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of tokens to generate.")] = 200,
    samples: Annotated[int | None, typer.Option(min=1, help="Number of texts to sample; default: 1.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 less random, above 1 more; 0: always the most probable token.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample only from the k most probable tokens.")] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample only from the most probable tokens whose probabilities add up to this value."),
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Drop tokens less probable than this fraction of the most probable one.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1, tokens that occurred before become less probable.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help=r"Stop before this string (\n: a line break); can be repeated.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the first sample; the others use the following numbers. Default: 1.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; beam search instead of sampling.")] = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="With --beam: number of texts to return.")] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(min=0, help="With --beam: length penalty; above 1 prefers longer texts, below 1 shorter ones."),
    ] = None,
    overflow: Annotated[
        Literal["error", "slide"],
        typer.Option(help="If the text exceeds the context: slide drops the older half; error reports an error."),
    ] = "slide",
    as_json: Annotated[
        bool, json_option("Print one JSON object per line, with the log-probability of each token.")
    ] = False,
) -> None:
    r"""Continue a text. A single sample is streamed; the final line break of standard input is ignored.

    Examples:

        regard complete --model runs/bard "ROMEO:"

        regard complete --model runs/bard "ROMEO:" --samples 10 --temperature 0.8 --top-k 50 --top-p 0.95 --seed 1

        regard complete --model runs/bard "ROMEO:" --stop "\n\n" --max-tokens 1000 --overflow error

        regard complete --model runs/gpt2 --beam 4 --n-best 3 --max-tokens 20 --json < prompt.txt
    """
    from regard.library import load_for

    stops = [re.sub(r"\\[nt\\]", lambda found: ESCAPES[found[0]], text) for text in stop or ()]
    sampling: dict[str, Any] = {
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
    sampled, searched = ({k: v for k, v in some.items() if v is not None} for some in (sampling, searches))
    if beam is None and searched:
        raise RegardError(f"--{next(iter(searched)).replace('_', '-')} needs --beam; add --beam or remove this option")
    if beam is not None and sampled:
        raise RegardError(f"--{next(iter(sampled)).replace('_', '-')} applies only to sampling; remove it or --beam")
    completer = load_for("complete", model)
    if prompt is None:
        prompt = "\n".join(given())
    if overflow == "slide" and completer.slides(prompt, max_tokens):
        about = f"the context holds {completer.model.limit} tokens; when it is full, the older half is dropped"
        typer.echo(f"regard: {about}", err=True)
    common: dict[str, Any] = {"tokens": max_tokens, "overflow": overflow}
    if beam is None and samples in (None, 1) and not as_json:
        sampled.pop("samples", None)
        for text in completer.stream(prompt, **common, **sampled):
            typer.echo(text, nl=False)
        typer.echo()
        return
    if beam is None:
        found = completer.complete(prompt, **common, **sampled)
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
