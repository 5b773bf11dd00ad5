"""Pages of docs/reference/, written from the objects: commands, measures, methods, attacks, papers, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
MADE = "<!-- Made by scripts/docs --reference. Change the object, not this page. -->"


def pages() -> dict[str, str]:
    """Name of each page of docs/reference -> its text."""
    written = {
        "commands.md": commands,
        "measures.md": measures,
        "methods.md": methods,
        "attacks.md": attacks,
        "papers.md": papers,
        "findings.md": findings,
        "tables.md": tables,
    }
    return {name: f"{MADE}\n\n" + "\n".join(make()).strip() + "\n" for name, make in written.items()}


def commands() -> Iterator[str]:
    """Every command with its flags."""
    from medunlearn.cli.command import Generated
    from medunlearn.cli.help import flag_groups
    from medunlearn.cli.verbs import verbs

    yield "# Commands\n"
    yield (
        "Look a flag up: its name, what it takes, its default. Every flag is also a key in a YAML file "
        "and a keyword in Python, with `_` for `-`. A flag with `.KEY` holds settings of its own "
        "(`--evaluate.limit 20`). The same texts stand in `medunlearn COMMAND --help`. Every command "
        "takes `--quiet` (print errors alone), `--json` (the result as JSON) and `--help` too.\n"
    )
    for verb in verbs(plug_ins=False).values():
        command = Generated(verb)
        fields = command.options.model_fields
        yield f"## {verb.words}\n\n{_prose(verb.summary)}\n"
        yield (
            "```text\n"
            + "\n".join(f"medunlearn {line}" for line in _examples(verb.words, verb.example))
            + "\n```\n"
        )
        if verb.notes:
            yield f"{_prose(verb.notes)}\n"
        places = [p.name for p in command.arguments]
        flags = {key: flag for key, flag in command.flags.items() if key not in ("quiet", "json", "help")}
        rows = [
            *((f"`{p.name.upper()}`", "", _prose(fields[p.name].description or "")) for p in command.arguments),
            *(_flag_row(flag) for members in flag_groups(verb, places, flags).values() for flag in members),
        ]
        yield _table(("flag", "default", "what it does"), rows)


def _flag_row(flag: Any) -> tuple[str, str, str]:
    name = f"`{flag.name}.KEY VALUE`" if flag.section else f"`{f'{flag.name} {flag.metavar}'.strip()}`"
    text = flag.help.removesuffix(f" [{flag.default}]") if flag.default else flag.help
    return name, f"`{flag.default}`" if flag.default else "", _prose(text)


def _examples(words: str, example: str) -> list[str]:
    """The commands in a verb's example, each by its words and flags."""
    lines = []
    for part in example.split("; "):
        described = re.sub(r"^(?:[^:`]*?): (?:medunlearn )?(?=\S)", "", part) if ": " in part else part
        text = described.removeprefix("medunlearn ")
        lines.append(text if text.startswith(words.split()[0] + " ") else f"{words} {text}")
    return lines


def measures() -> Iterator[str]:
    from medunlearn.cli.listing import TABLES
    from medunlearn.metrics import get_metric

    yield "# Measures\n"
    yield (
        "Look a measure up: what it is, its range, and in which direction it shows that a model knows "
        "more. Any command asks any measure that it can give what it needs: `evaluate --metrics`, `audit "
        "--measures`, `attack --more-measures`, `score --measures`. What each means beside others stands "
        "in [definitions](../definitions.md#metrics).\n"
    )
    rows = []
    for row in TABLES["measures"]():
        bounds = ", ".join(filter(None, (row["range"], _direction(row["knows more"]))))
        facts = {"range": bounds, "needs": row["needs"], "default of": row["defaults"]}
        facts["source"] = _source_of(get_metric, row["name"])
        told = "; ".join(f"{name}: {fact}" for name, fact in facts.items() if fact)
        rows.append((f"`{row['name']}`", row["what"], told))
    yield _table(("name", "what it is", "range, needs, where it is a default, source"), rows)


def _direction(direction: str) -> str:
    return "" if not direction else "no direction" if direction == "neither" else f"{direction} = knows more"


def _source_of(get: Any, name: str) -> str:
    return str(getattr(get(name), "source", "") or "")


def methods() -> Iterator[str]:
    from medunlearn.methods import METHODS, method_class

    yield "# Methods\n"
    yield (
        "Look a method up: what it computes, from which paper, and its settings, which are `--METHOD.KEY "
        "VALUE`. Which one to take is in [unlearn](../unlearn.md).\n"
    )
    for name in sorted(METHODS):
        yield from _described(name, method_class(name))


def attacks() -> Iterator[str]:
    from medunlearn.attacks import ATTACKS, known_attacks

    yield "# Attacks\n"
    yield (
        "Look an attack up: what it asks, from which paper, and its settings, which are `--ATTACK.KEY "
        "VALUE`. How to read what comes out is in [attacks](../attacks.md).\n"
    )
    for name, cls in known_attacks().items():
        if name in ATTACKS:
            title = f"{cls.title}: {cls.question}. Family `{cls.family.name}`. Source: {cls.source}."
            yield from _described(name, cls, title)


def _described(name: str, cls: Any, title: str = "") -> Iterator[str]:
    from dataclasses import fields

    from medunlearn.registry import choices_of, ranges_of

    yield f"## {name}\n"
    if title:
        yield f"{_prose(title)}\n"
    paragraphs = (cls.__doc__ or "").split("\n\n")
    for paragraph in paragraphs:
        text = " ".join(paragraph.split())
        if not text.startswith(("Attributes:", "Args:", "Raises:", *(["Source:"] if title else []))):
            yield f"{_prose(text)}\n"
    described = _attributes(cls.__doc__ or "")
    choices, ranges = choices_of(cls), ranges_of(cls)
    example = _example(cls)
    rows = []
    for field in fields(cls):
        default = getattr(example, field.name, field.default)
        bounds = ", ".join(map(str, choices.get(field.name, ()))) or ranges.get(field.name, "")
        rows.append((f"`{name}.{field.name}`", f"`{default}`", bounds, _prose(described.get(field.name, ""))))
    if rows:
        yield _table(("setting", "default", "values", "what it does"), rows)


def _example(cls: Any) -> Any:
    try:
        return cls()
    except TypeError:
        return None


def _attributes(doc: str) -> dict[str, str]:
    """Field -> its text in the section ``Attributes:`` of a docstring."""
    section = doc.partition("Attributes:\n")[2].split("\n\n")[0]
    named: dict[str, str] = {}
    names: Sequence[str] = ()
    for line in section.splitlines():
        if start := re.match(r"\s{4,8}(\w[\w, ]*): (.+)", line):
            names = start[1].split(", ")
            named |= dict.fromkeys(names, start[2].strip())
        elif names:
            named |= {name: f"{named[name]} {line.strip()}" for name in names}
    return named


def papers() -> Iterator[str]:
    from medunlearn.cli.listing import TABLES

    yield "# Papers, presets, tasks, sources\n"
    yield "Look up what can be built, which presets there are, and what language models are asked to do.\n"
    heads = {
        "benchmarks": "Benchmarks: `medunlearn build NAME`",
        "papers": "Papers",
        "presets": "Presets: `--preset NAME`",
        "tasks": "Writing tasks of language models",
        "sources": "Sources",
    }
    for what, head in heads.items():
        yield f"## {head}\n"
        rows = TABLES[what]()
        yield _table([*rows[0]], [[f"`{row['name']}`", *map(_prose, [*row.values()][1:])] for row in rows])


def findings() -> Iterator[str]:
    """Claims of each paper and the rules that decide them."""
    import yaml

    from medunlearn.paper import installed_papers

    yield "# Findings of the papers\n"
    yield (
        "Look up what a paper claims, and the rule that decides it on models of your own. Verdicts and what they "
        "need are in [papers](../papers.md#what-holds-for-all). t is the target, r the retrained model.\n"
    )
    for paper in installed_papers():
        folder = ROOT.joinpath("src", *paper.package.split("."))
        files = (yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("**/*.yaml")))
        rows = [(_prose(one["claim"]), _prose(one["rule"])) for content in files for one in _claims(content)]
        if rows:
            yield f"## {paper.title}\n"
            yield _table(("claim", "a case holds where"), rows)


def _claims(content: Any) -> Iterator[Mapping[str, str]]:
    """Entries with a claim and a rule, at any depth."""
    if isinstance(content, dict) and {"claim", "rule"} <= {*content}:
        yield content
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _claims(part)


def tables() -> Iterator[str]:
    """Columns of the tables that last."""
    from medunlearn.audit.audit_tables import SPANS_SCHEMA
    from medunlearn.audit.kinds.sorting import SCHEMA as KINDS
    from medunlearn.audit.options.option_audit import CHOICES_SCHEMA, OPTIONS_SCHEMA
    from medunlearn.audit.probes import PROBES_SCHEMA
    from medunlearn.data.tables import QUESTIONS, SPLITS, TITLES, records_schema
    from medunlearn.judging.rater_agreement import AGREEMENT_COLUMNS
    from medunlearn.metrics.leakage.table import SCHEMA as KEYWORDS
    from medunlearn.request.holders.holder_log import COLUMNS as HOLDERS
    from medunlearn.results.scores import COLUMNS, LABELS

    columns: Mapping[str, Iterable[Any]] = {
        "records.parquet": records_schema(["patient"], several=True),
        "questions.parquet": QUESTIONS,
        "splits.parquet": SPLITS,
        "titles.parquet": TITLES,
        "keywords/EXTRACTOR.parquet": KEYWORDS,
        "probes.parquet": PROBES_SCHEMA,
        "spans.parquet": SPANS_SCHEMA,
        "kinds.parquet": KINDS,
        "options.parquet": OPTIONS_SCHEMA,
        "choices.parquet": CHOICES_SCHEMA,
    }
    yield "# Columns of tables\n"
    yield (
        "Look up the columns of a table on disk. Which file lies where is in [files](../files.md). Tables "
        "are Parquet: open them with pandas, Polars, DuckDB or `datasets`.\n"
    )
    yield "## scores.parquet\n"
    yield (
        "One row an item and measure, the same for every command that measures. "
        "Label columns stand where they apply.\n"
    )
    yield _table(("column", ""), [*((f"`{c}`", "always") for c in COLUMNS), *((f"`{c}`", "label") for c in LABELS)])
    for name, schema in columns.items():
        yield f"## {name}\n"
        yield _table(("column", "type"), [(f"`{field.name}`", f"`{field.type}`") for field in schema])
    for name, texts in {"agreement.parquet": AGREEMENT_COLUMNS, "holders.parquet": HOLDERS}.items():
        yield f"## {name}\n"
        yield ", ".join(f"`{text}`" for text in texts) + "\n"


def _prose(text: str) -> str:
    """Text of a help page or docstring as Markdown: angle brackets are text, double backticks are code."""
    text = " ".join(text.split()).replace("``", "`")
    text = re.sub(r":(?:class|mod|func|data|meth|attr):`~?([^`]+)`", r"`\1`", text)
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<*\[_])", r"\\\1", part) for part in parts)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [" | ".join(" ".join(str(cell).split()).replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join(
        [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {line} |" for line in lines), ""]
    )


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
