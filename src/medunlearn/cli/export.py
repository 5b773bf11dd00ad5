"""``medunlearn export``: a model that others can load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medunlearn.cli.common import Json, Quiet, ending, print_json, sayer

EPILOG = (
    "Example: `medunlearn export runs/npo --out hf/`\n\n"
    "A hub is asked only with --push, under your own login (`hf auth login` or HF_TOKEN). A model that was trained "
    "on real patients may repeat them: push it where its data may go."
)


@ending
def command(
    source: Annotated[Path, typer.Argument(metavar="RUN|FOLDER", help="A run, or a model folder.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the exported model.")],
    push: Annotated[str | None, typer.Option("--push", help="Hub id (org/name) to send it to as well.")] = None,
    private: Annotated[
        bool, typer.Option("--private", help="The repository that --push makes is private.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a model as a full Hugging Face folder; LoRA is merged, a delta is put together with its base."""
    from medunlearn.pipeline.export import export

    folder = export(source, out, push=push, private=private)
    if json:
        print_json({"folder": str(folder), "pushed": push})
        return
    sayer(quiet, json)(f"{folder}: model and tokenizer" + (f", pushed to {push}" if push else ""))
