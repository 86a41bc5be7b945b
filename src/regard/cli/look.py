"""`regard look`: show attention weights."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.options import Model, output_option
from regard.errors import RegardError


def look(
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="A text, or the file of an image; for BERT, [SEP] separates two texts, and [MASK] stands for a masked "
            "word.",
        ),
    ],
    model: Model = None,
    target: Annotated[
        str | None, typer.Option(help="Output to explain (translation, label, tags); default: the model's own.")
    ] = None,
    view: Annotated[
        Literal["matrix", "lines", "grid", "positions"],
        typer.Option(help="A matrix; lines between words; a grid of all heads; positional encodings."),
    ] = "matrix",
    layer: Annotated[
        str | None,
        typer.Option(help="Attention to show; an unknown name prints the valid ones. Default: the mean of all."),
    ] = None,
    head: Annotated[
        int | None, typer.Option(min=0, help="Index of the head, from 0; default: the mean of all.")
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show tokens instead of words.")] = False,
    output: Annotated[Path | None, output_option("Write a figure (.png, .svg, .pdf) or a page (.html).")] = None,
) -> None:
    """Show what each word attends to.

    The words of a translation attend to its source; words of a text to each other.

    Examples:

        regard look "The child picked up a small stone."

        regard look "The child laughs." --target "El niño se ríe." --layer decoder.layers.1.cross --head 3

        regard look --model runs/dates "Monday, August 3, 1992" -o alignment.png

        regard look "The child laughs." --view grid -o heads.pdf

        regard look "The child laughs." -o page.html

        regard look --model runs/bert "The [MASK] barked."

        regard look --model runs/images cat.jpg -o cat.png
    """
    from regard.data.sentences import split
    from regard.explain import media
    from regard.explain.trace import by_role
    from regard.explain.view import AttentionView, figure_module
    from regard.library import default_for, load_for

    if output is not None and output.suffix.lower() != ".html":
        figure_module().expect_format(output, ".html")
    name = model or default_for("look")
    subject = load_for("look", name)
    inputs = by_role(subject.accepts, text)
    if "source" in inputs and (count := len(split(text).sentences)) > 1:
        typer.echo(
            f"the {count} sentences are shown as one, though regard translate splits them; for one, give it alone",
            err=True,
        )
    trace = subject.trace(inputs, target)
    seen = AttentionView(trace, view, layer, head, not tokens)
    output_line = media.of(trace.output).line(trace.output)
    if output is None:
        if view != "matrix":
            raise RegardError(f"--view {view} cannot be shown as text; name a file with -o, such as -o {view}.png")
        typer.echo(str(seen))
        if output_line and not trace.writes:
            typer.echo(f"\n{output_line}")
        return
    if output.suffix.lower() == ".html":
        from regard.serve import page
        from regard.serve.explorer import Explorer

        is_mean = view == "matrix" and layer is None and head is None
        page_view = "translate" if is_mean else "positions" if view == "positions" else "heads"
        chosen = {"target": target, "path": layer, "head": head, "words": None if tokens else 1}
        address = {"view": page_view, **inputs, **{key: str(x) for key, x in chosen.items() if x is not None}}
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page.of_sentence(Explorer(subject, Path(name).name, inputs), address), "utf-8")
    else:
        seen.save(output)
    typer.echo(f"{output}: {output_line}")
