"""Check that nothing of version 0.1.0 was lost: fill the column ``afterwards`` of golden/capabilities.csv.

    python benchmarks_perf/capabilities.py    # exit code 1 and a list where something is gone

Each verb, flag, setting, registered name and Python call of 0.1.0 is looked up in the commands of today, under its
own name or the one that the CHANGELOG gives it.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

TABLE = Path(__file__).parent / "golden" / "capabilities.csv"
VERBS = {
    "diagnose": "audit diagnosis",
    "keywords": "build keywords",
    "export-tasks": "export tasks",
    "export": "export",
    "audit": "audit",
    **{f"kinds {verb}": f"audit kinds {verb}" for verb in ("find", "review", "corrected")},
    **{f"identifiers {verb}": f"audit identifiers {verb}" for verb in ("find", "review", "corrected", "recall")},
}
"""Verbs with another name."""
FLAGS = {
    "--number": ("--limit", "--synthetic"),
    "--invented": ("--synthetic",),
    "--patients": ("--synthetic", "--patients"),
    "--attack": ("--attacks",),
    "--samples": ("--samples-per-prompt",),
    "--sample": ("--limit", "--sample"),
    "--subjects": ("--limit",),
    "--questions": ("--limit",),
    "--probes": ("--limit",),
    "--llm-store": ("--store",),
    "--llm-dry-run": ("--dry-run",),
    "--llm-again": ("--again",),
    "--new": ("--synthetic", "--new"),
    "--open": ("--open", "--no-open"),
    "OVERRIDES": ("--config",),
    "WORDS": ("--config",),
}
"""Flags with another name; positional ``key=value`` overrides are flags and ``--config`` now."""
CLASSES = {
    "AmnesiaNotesSettings": ("build amnesia",),
    "AmnesiaSettings": ("build amnesia",),
    "AttackSettings": ("attack",),
    "AuditOptionsSettings": ("audit", "options."),
    "AuditParts": ("audit",),
    "AuditRelations": ("report", "relations"),
    "AuditSettings": ("audit",),
    "DiagnoseSettings": ("audit diagnosis",),
    "DiagnosisSettings": ("build diagnosis",),
    "EvaluateSettings": ("evaluate",),
    "ExperimentSettings": ("run",),
    "IdentifierSettings": ("audit identifiers find",),
    "JudgeSettings": ("judge",),
    "KindSettings": ("audit kinds find",),
    "LumeNewSettings": ("build lume",),
    "LumeSettings": ("build lume",),
    "MedforgetSettings": ("build medforget",),
    "MuseSettings": ("build muse",),
    "OptionsSettings": ("build options",),
    "SearchSettings": ("sweep", "unlearn.search."),
    "ServerSettings": ("judge", "llm."),
    "SweepSettings": ("sweep",),
    "TaskExportSettings": ("export tasks",),
    "TofuSettings": ("build tofu",),
    "TrainSettings": ("train",),
    "UnlearnSettings": ("unlearn",),
    "UtilitySettings": ("utility",),
    "WatchSettings": ("train", "watch."),
}
"""Settings classes of 0.1.0: the verb that reads them, and the prefix of their flags there."""


def medunlearn(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of this environment."""
    command = [sys.executable, "-m", "medunlearn", *words]
    return subprocess.run(command, capture_output=True, text=True, env=None)


@cache
def help_of(verb: str) -> str | None:
    """Help of a verb; None if there is no such verb."""
    done = medunlearn(*verb.split(), "--help")
    return done.stdout if done.returncode == 0 else None


@cache
def flags_of(verb: str) -> frozenset[str]:
    """Flags and capitalized arguments in a verb's help."""
    text = help_of(verb) or ""
    return frozenset(re.findall(r"(?<![\w-])(--[a-z][\w.-]*|[A-Z]{2,}\b)", text))


def flag_now(verb: str, flag: str) -> str | None:
    """The flag of today for one of 0.1.0."""
    there = flags_of(verb)
    nested = flag.replace("--llm-key-env", "--llm.api-key-env").replace("--llm-", "--llm.", 1)
    for name in (flag, nested, *FLAGS.get(flag, ())):
        if name in there:
            return f"{verb} {name}"
    argument = flag.removeprefix("--").upper().replace("-", "_")
    if flag.isupper() or argument in there:
        return f"{verb} {argument if argument in there else '(argument)'}"
    parent, _, field = nested.removeprefix("--").partition(".")
    return f"{verb} {nested}" if f"--{parent}" in there and field in nested_fields(parent) else None


@cache
def nested_fields(parent: str) -> frozenset[str]:
    """Flags below ``--llm``, ``--options``, ``--watch`` or ``--unlearn`` (``search.lr``)."""
    from medunlearn.config.diagnosis import WatchSettings
    from medunlearn.config.experiments import SearchSettings
    from medunlearn.config.options import AuditOptionsSettings
    from medunlearn.llm import ServerSettings

    owners = {"llm": ServerSettings, "options": AuditOptionsSettings, "watch": WatchSettings}
    if parent == "unlearn":
        return frozenset(f"search.{name}" for name in SearchSettings.model_fields)
    names = {name.replace("_", "-") for name in owners[parent].model_fields} if parent in owners else set()
    return frozenset(names | {"price"} if "prices" in names else names)


def setting_now(owner: str, field: str) -> str | None:
    """The flag of today for a field of a settings class of 0.1.0."""
    verb, prefix = (*CLASSES[owner], "")[:2]
    if prefix == "relations":
        return "report --relations FILE.yaml"
    name = field.replace("_", "-")
    for place in (f"--{prefix}{name}", f"--{prefix}limit" if name == "probes" else f"--{name}"):
        own = flag_now(verb, place)
        if own:
            return own
    own = flag_now(verb, f"--{name.partition('-')[2]}") if name.startswith("llm-") else None
    return own or flag_now(verb, f"--{name.replace('llm-', 'llm.', 1)}")


@cache
def names_in(what: str) -> frozenset[str]:
    """Names that ``medunlearn list`` prints."""
    done = medunlearn("list", "measures" if what == "metrics" else what, "--json")
    return frozenset(row["name"] for row in json.loads(done.stdout))


def now(kind: str, name: str) -> str | None:
    """Where a capability lives today; None if it is gone."""
    if kind == "verb":
        verb = VERBS.get(name, name)
        return verb if help_of(verb) else None
    if kind == "flag":
        verb, _, flag = name.rpartition(" ")
        return flag_now(VERBS.get(verb, verb), flag)
    if kind == "setting":
        owner, _, field = name.partition(".")
        return setting_now(owner, field)
    if kind == "name":
        what, _, own = name.partition(": ")
        return f"list {what}" if own in names_in(what) else None
    if kind == "call":
        import medunlearn as mu

        return name if hasattr(mu, name.removeprefix("mu.")) else None
    return "README.md, What works"


def main() -> int:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lost = []
    for row in rows:
        place = now(row["kind"], row["name"])
        if place is not None:
            row["afterwards"] = place
        elif not row["afterwards"]:
            lost.append(f"{row['kind']}: {row['name']}")
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    print(f"{len(rows)} capabilities, {len(lost)} not found")
    print("\n".join(lost))
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
