"""Table 10 by a language model: a sample of responses is judged, and kept beside what the term lists found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from medunlearn.audit.identifiers.findings import Output
from medunlearn.audit.identifiers.places import Tokens, with_tokens
from medunlearn.audit.identifiers.search.asked import TASK, ask_sensitive, sensitive_sources
from medunlearn.audit.identifiers.search.review import sample_of, similar_to_record
from medunlearn.audit.kinds.judging import OneJudge
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.records import Record
from medunlearn.data.storage import read_json, sha256_of_json, write_atomically, write_json
from medunlearn.errors import InputError
from medunlearn.judging.writing import task_class
from medunlearn.llm import CostEstimate

FILE, HOW = "sensitive_judged.parquet", "sensitive_judged.json"


@dataclass(frozen=True)
class Judged:
    """What a judge found.

    Attributes:
        model: the judge.
        found: see :func:`~medunlearn.audit.identifiers.search.asked.ask_sensitive`.
        outputs: the responses that it answered about.
        unanswered: why others of the sample have no answer -> how many.
    """

    model: str
    found: pd.DataFrame
    outputs: Sequence[Output]
    unanswered: Mapping[str, int]


def judge_sensitive(
    outputs: Sequence[Output],
    records: Sequence[Record],
    settings: IdentifierSettings,
    judge: OneJudge,
    folder: Path,
    *,
    tokens: Tokens | None = None,
    quiet: bool = False,
) -> Judged:
    """Ask a judge about a sample of responses, and keep what it says in the folder.

    Raises:
        InputError: no response is similar enough to its record.
        MedunlearnError: the server left some without an answer; what came is kept.
    """
    chosen = chosen_of(outputs, records, settings)
    with judge.client() as client:
        found, rejects = ask_sensitive(chosen, records, client, quiet=quiet)
        facts = client.facts()
    found = found if tokens is None or found.empty else with_tokens(found, chosen, tokens)
    without = {int(one.id.rpartition("-")[2]) for one in rejects}
    answered = [_key(one) for place, one in enumerate(chosen) if place not in without]
    unanswered = dict(Counter(one.reason for one in rejects))

    def write(path: Path) -> None:
        path.touch(mode=0o600)
        found.to_parquet(path, index=False)

    write_atomically(folder / FILE, write)
    told = {
        "model": judge.name,
        "of": _digest(outputs),
        "answered": answered,
        "unanswered": unanswered,
        "llm": facts,
    }
    write_json(folder / HOW, told)
    judge.refuse_missing([one for one in rejects if one.status in ("failed", "not_sent")], "responses")
    kept = read_judged(outputs, folder)
    assert kept is not None
    return kept


def read_judged(outputs: Sequence[Output], folder: Path) -> Judged | None:
    """What a judge said of these responses; None where none was asked about them."""
    if not (folder / HOW).exists() or not (folder / FILE).exists():
        return None
    told = read_json(folder / HOW)
    if told["of"] != _digest(outputs):
        return None
    answered = {(probe, variant, sample) for probe, variant, sample in told["answered"]}
    own = [one for one in outputs if _key(one) in answered]
    return Judged(str(told["model"]), pd.read_parquet(folder / FILE), own, told["unanswered"])


def plan_sensitive(
    outputs: Sequence[Output], records: Sequence[Record], settings: IdentifierSettings, judge: OneJudge
) -> CostEstimate:
    """What the judge would be sent; nothing is, and nothing is written."""
    chosen = chosen_of(outputs, records, settings)
    sources = [source for _, source in sensitive_sources(chosen, records).values()]
    return judge.estimate(task_class(TASK)(), sources)


def chosen_of(outputs: Sequence[Output], records: Sequence[Record], settings: IdentifierSettings) -> list[Output]:
    """The responses that a judge is asked about: a seeded sample of those that share much with their record.

    Raises:
        InputError: none does.
    """
    similar = similar_to_record(outputs, {one.record_id: one.text for one in records}, settings.least_rouge)
    if not similar:
        raise InputError(
            f"No response has a ROUGE-L above {settings.least_rouge} with its record, so there is nothing to "
            "judge. Give a lower least_rouge=."
        )
    return sample_of(similar, settings.judged, settings.seed)


def _key(output: Output) -> tuple[str, str, int]:
    return output.probe_id, output.variant, output.sample


def _digest(outputs: Sequence[Output]) -> str:
    return sha256_of_json([[*_key(one), one.record_id, one.prefix, one.response] for one in outputs])
