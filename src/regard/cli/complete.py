"""`regard complete`: continue a text with a language model."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.options import Model, json_option
from regard.cli.texts import expect_one_source, standard_input
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.completion_types import Completion

ESCAPES = {r"\n": "\n", r"\t": "\t", r"\\": "\\"}


def complete(
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help='Texts to continue (may be ""); default: standard input, as one text.'),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", exists=True, dir_okay=False, help="Continue the text of this file, plain or .gz."),
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
    r"""Continue texts. A single sample is streamed; the final line break of a file or standard input is ignored.

    Each text on the command line is a prompt of its own, with the same seeds; a file or standard input is one prompt.

    Examples:

        regard complete --model runs/bard "ROMEO:"

        regard complete --model runs/bard "ROMEO:" "JULIET:" --samples 10 --temperature 0.8 --top-k 50 --seed 1

        regard complete --model runs/bard "ROMEO:" --stop "\n\n" --max-tokens 1000 --overflow error

        regard complete --model runs/gpt2 --beam 4 --n-best 3 --max-tokens 20 --json < prompt.txt
    """
    from regard.data.text import lines
    from regard.library import load_for
    from regard.tasks.texts import one_line

    expect_one_source(prompts, file)
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
    some = prompts or ["\n".join(standard_input() if file is None else lines(file))]
    if overflow == "slide" and any(completer.slides(prompt, max_tokens) for prompt in some):
        about = f"the context holds {completer.model.limit} tokens; when it is full, the older half is dropped"
        typer.echo(f"regard: {about}", err=True)
    common: dict[str, Any] = {"tokens": max_tokens, "overflow": overflow}
    for prompt in some:
        if len(some) > 1 and not as_json:
            typer.echo(f"=== {one_line(prompt)}")
        if beam is None and samples in (None, 1) and not as_json:
            for text in completer.stream(prompt, **common, **{k: v for k, v in sampled.items() if k != "samples"}):
                typer.echo(text, nl=False)
            typer.echo()
            continue
        if beam is None:
            found = completer.complete(prompt, **common, **sampled)
        else:
            found = completer.best(prompt, beam=beam, **common, **searched)
        for completion in found:
            if as_json:
                typer.echo(json.dumps(_as_json(prompt, completion), ensure_ascii=False))
                continue
            if len(found) > 1:
                is_sample = completion.seed is not None
                about = f"seed {completion.seed}" if is_sample else f"log-probability {completion.log_probability:.3f}"
                typer.echo(f"--- {about}")
            typer.echo(completion.text)


def _as_json(prompt: str, completion: "Completion") -> dict[str, Any]:
    tokens = [
        {"token": token, "piece": piece, "log_probability": log}
        for token, piece, log in zip(
            completion.tokens, completion.pieces, completion.token_log_probabilities, strict=True
        )
    ]
    about = {
        "text": completion.text,
        "seed": completion.seed,
        "log_probability": completion.log_probability,
        "mean_log_probability": completion.mean_log_probability,
        "finish_reason": completion.finish_reason,
    }
    return {"prompt": prompt, **about, "tokens": tokens}
