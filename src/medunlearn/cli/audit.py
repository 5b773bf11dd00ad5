"""``medunlearn audit``: what a model repeats of texts that it may have been trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medunlearn.cli.audit_tables import print_audit, print_json_audit
from medunlearn.cli.common import Device, Json, Quiet, Seed, ending, settings_help
from medunlearn.config import parse_overrides
from medunlearn.config.audit import AuditParts, AuditSettings
from medunlearn.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVER = "llm."

EPILOG = (
    "Example: `medunlearn audit runs/target bench/ --baseline runs/before --out runs/audit sample=100`\n\n"
    "Example: `medunlearn audit http://127.0.0.1:8000/v1 guidelines=corpus/ notes=notes.csv --model-name meditron "
    "--tokenizer tokenizer/ --out runs/audit`\n\n"
    "Example: `medunlearn audit --responses responses.jsonl --out runs/audit` (no model and no torch)\n\n"
    "A CORPUS is PATH or NAME=PATH: text files or a folder of them, CSV, JSONL, Parquet, or a benchmark's folder. "
    "NAME must not be a setting's. Responses are kept as they come; the same command again goes on where it "
    "stopped.\n\n"
    + settings_help(AuditSettings)
    + "\n\nFurther steps, which can also be asked of an audit that is done: `identifiers=true kinds=true "
    "options=questions.jsonl encoder=FOLDER`\n\n" + settings_help(AuditParts)
)


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODEL CORPUS...] [KEY=VALUE]",
        help="A run, model folder, hub id or server's address; texts; and settings, which are listed below.",
        show_default=False,
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder of the audit.")]
Baseline = Annotated[
    list[str] | None,
    typer.Option(
        "--baseline",
        help="A model to compare with, NAME@http://HOST/v1, a table of responses, or an audit. Again for more.",
    ),
]
Responses = Annotated[
    Path | None, typer.Option("--responses", help="Stored responses (JSONL, CSV, Parquet) in place of a model.")
]
ModelName = Annotated[
    str | None, typer.Option("--model-name", help="Of a server: the model, as the server calls it.")
]
Tokenizer = Annotated[
    str | None, typer.Option("--tokenizer", help="Folder with a tokenizer.json to count text in; none: words.")
]
Sample = Annotated[int | None, typer.Option("--sample", min=0, help="Documents of a corpus at most; 0: all.")]
TextColumn = Annotated[
    str | None, typer.Option("--text-column", metavar="COLUMN", help="Column of a table that holds the text.")
]
Label = Annotated[str | None, typer.Option("--label", help="What tables call the model.")]
AllowRemote = Annotated[
    bool, typer.Option("--allow-remote-llm", help="Send protected texts to a server off this machine.")
]
PaperBootstrap = Annotated[
    bool, typer.Option("--paper-bootstrap", help="Also the paper's 100 x 100 bootstrap and rank-sum test.")
]
ShowText = Annotated[
    bool, typer.Option("--show-text", help="Show the longest shared runs, which are text of records.")
]


@ending
def command(
    words: Words = None,
    out: Out = None,
    baseline: Baseline = None,
    responses: Responses = None,
    model_name: ModelName = None,
    tokenizer: Tokenizer = None,
    sample: Sample = None,
    text_column: TextColumn = None,
    label: Label = None,
    allow_remote_llm: AllowRemote = False,
    paper_bootstrap: PaperBootstrap = False,
    show_text: ShowText = False,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure what a model repeats word for word of texts that it may have been trained on."""
    from medunlearn.audit.run import audit

    if out is None:
        raise ConfigError(["--out is missing: the folder of the audit"])
    plain, values, llm = _sorted(words or [])
    flags = {"tokenizer": tokenizer, "sample": sample, "text_column": text_column, "seed": seed}
    given = {name: value for name, value in flags.items() if value is not None}
    found = audit(
        plain[0] if plain else None,
        plain[1:],
        out=out,
        responses=responses,
        baseline=baseline or (),
        model_name=model_name,
        llm=llm,
        allow_remote_llm=allow_remote_llm,
        label=label,
        device=device,
        quiet=quiet or json,
        **{**given, **values},
    )
    if json:
        print_json_audit(found, paper_bootstrap)
    elif not quiet:
        print_audit(found, paper=paper_bootstrap, show_text=show_text)


def _of_parts(key: str) -> bool:
    return key.split(".")[0] in AuditParts.model_fields


def _sorted(words: Sequence[str]) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Model and corpora, settings, and settings of the server.

    ``KEY=VALUE`` is a setting where there is one of that name; else ``NAME=PATH`` is a corpus where there is the
    path.

    Raises:
        ConfigError: words that are neither.
    """
    plain, settings, problems = [], [], []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            plain.append(word)
        elif key in AuditSettings.model_fields or _of_parts(key) or key.startswith(SERVER):
            settings.append(word)
        elif plain and (Path(value).exists() or value.startswith("hub:")):
            plain.append(word)
        else:
            known = {**AuditSettings.model_fields, **AuditParts.model_fields}
            problems.append(
                f"{word!r}: {unknown_name('setting', key, known, most=40)} A corpus is NAME=PATH, and there is no "
                f"{value!r}."
            )
    if problems:
        raise ConfigError(problems)
    values = parse_overrides(settings)
    llm = {key.removeprefix(SERVER): value for key, value in values.items() if key.startswith(SERVER)}
    return plain, {key: value for key, value in values.items() if not key.startswith(SERVER)}, llm
