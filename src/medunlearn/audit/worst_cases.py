"""The worst cases of an audit: one row per patient with any leak, under a pseudonym, worst first."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import pandas as pd

from medunlearn.audit.asking import short_title
from medunlearn.audit.audit_tables import KEY, WAY, AuditTables
from medunlearn.audit.extraction import labelled_probes
from medunlearn.audit.giveaways import IDENTITY, given_away
from medunlearn.audit.shared_wording import knows_wording
from medunlearn.config.audit import PREFIX

SHORTEST = 30
"""Tokens of the shortest run that makes a case."""
PROMPT_SHOWN, RESPONSE_SHOWN = 160, 700
"""Characters of a prompt's end and of a response that a case shows."""
Piece = tuple[str, str]
"""Text and its mark: ``run``, ``identifier`` or none."""


@dataclass(frozen=True)
class WorstCase:
    """The worst leak of one patient.

    Attributes:
        patient: pseudonym from :func:`pseudonyms`.
        unseen: the model never saw the patient, so it did not learn this from the record.
        length: tokens of the longest run; 0 if only identifiers leaked.
        prefix, way, decoding: of the response with the longest run, or else with most identifiers.
        in_response, in_suffix: first token of the run in both texts; None without a run.
        responses, of: responses with a run or an identifier, and all of this patient.
        identifiers: number of distinct leaked identifiers; ``kinds``: their kinds.
        prefixes, prompts, decodings: those with a leak; ``prompts`` in words.
        baseline: tokens of the longest run that any baseline shares on the same probes; None without a baseline.
        boilerplate: every run is wording that other patients' texts hold too.
        prompt, response: text of that response and its prompt, in pieces; empty unless text is shown.
    """

    patient: str
    model: str
    corpus: str
    unseen: bool
    length: int
    prefix: int
    decoding: str
    in_response: int | None
    in_suffix: int | None
    responses: int
    of: int
    identifiers: int
    kinds: tuple[str, ...]
    prefixes: tuple[int, ...]
    decodings: tuple[str, ...]
    baseline: int | None
    way: str = PREFIX
    prompts: tuple[str, ...] = ()
    boilerplate: bool = False
    prompt: tuple[Piece, ...] = ()
    response: tuple[Piece, ...] = ()

    @property
    def prompt_title(self) -> str:
        """``50``, ``50, chat``, ``prompt 1``; ``mixed`` for several lengths."""
        return short_title(self.way, self.prefix)

    def data(self) -> dict[str, Any]:
        """The row for JSON; with text only if it is shown."""
        names = [name for name in self.__dataclass_fields__ if name not in ("prompt", "response")]
        row = {name: getattr(self, name) for name in names}
        if self.response:
            row |= {name: "".join(text for text, _ in getattr(self, name)) for name in ("prompt", "response")}
        return row


def pseudonyms(audits: Iterable[AuditTables]) -> dict[str, str]:
    """Subject -> ``P0001``, ``P0002``, ...: the same in every report of the same audits.

    They are ordered by a hash of the subject and the responses' digest, which no report contains: a list of
    patients does not reveal which one is ``P0001`` without the audit's folder.
    """
    audits = list(audits)
    salt = str(audits[0].info.get("results", {}).get("responses_sha256", audits[0].label)) if audits else ""
    subjects = sorted({str(subject) for audit in audits for subject in audit.probes["subject"]})
    ordered = sorted(subjects, key=lambda subject: hashlib.sha256(f"{salt}\n{subject}".encode()).digest())
    width = max(4, len(str(len(ordered))))
    return {subject: f"P{number:0{width}d}" for number, subject in enumerate(ordered, start=1)}


def worst_cases(
    audit: AuditTables,
    names: Mapping[str, str],
    titles: Mapping[str, str],
    baselines: Sequence[AuditTables] = (),
    *,
    show_text: int = 0,
) -> tuple[WorstCase, ...]:
    """Every patient with a leaked run or identifier: most identifiers first, then the longest run.

    Args:
        names: subject -> pseudonym.
        titles: kind of identifier -> its name.
        show_text: number of first cases that include the text of prompt and response.
    """
    probes = labelled_probes(audit).set_index("probe_id")
    spans = audit.spans[audit.spans["probe_id"].isin(probes.index) & (audit.spans["length"] >= SHORTEST)]
    leaks = given_away(audit) if audit.findings is not None else pd.DataFrame(columns=[*KEY, *IDENTITY, "value"])
    leaks = leaks[leaks["probe_id"].isin(probes.index)]
    kinds = leaks.drop_duplicates(IDENTITY).groupby("subject")["kind"]
    kinds_of = {str(subject): own.tolist() for subject, own in kinds}
    response_counts = audit.scores.drop_duplicates(["item", "decoding", "sample"]).groupby("subject").size()
    beside = _longest_of_baselines(baselines, probes["subject"])
    cases = []
    for subject, rows in _leaking_responses(probes, spans, leaks).items():
        case = WorstCase(
            patient=names[subject],
            model=audit.label,
            **_of_responses(rows),
            of=int(response_counts.get(subject, len(rows))),
            identifiers=len(kinds_of.get(subject, ())),
            kinds=tuple(sorted({titles.get(kind, kind) for kind in kinds_of.get(subject, ())})),
            baseline=None if beside is None else int(beside.get(subject, 0)),
        )
        cases.append((case, tuple(rows[0][name] for name in KEY)))
    cases.sort(key=lambda pair: worst_first(pair[0]))
    texts = _texts(audit, {key for _, key in cases[:show_text]}, spans, leaks) if show_text else {}
    return tuple(replace(case, **texts.get(key, {})) for case, key in cases)


def worst_first(case: WorstCase) -> tuple[int, bool, int, str]:
    """Sort key: most identifiers, then the patient's own wording before boilerplate, then the longest run."""
    return -case.identifiers, case.boilerplate, -case.length, case.patient


def _leaking_responses(
    probes: pd.DataFrame, spans: pd.DataFrame, leaks: pd.DataFrame
) -> dict[str, list[dict[Any, Any]]]:
    """Subject -> its responses with a run or an identifier, with the columns of their probes.

    The longest run that is its own comes first.
    """
    spans = spans if knows_wording(spans) else spans.assign(own=True)
    runs = spans.sort_values(["own", "length"], ascending=False, kind="stable").drop_duplicates(KEY)
    counts = leaks.drop_duplicates([*KEY, "kind", "key"]).groupby(KEY, sort=False).size().rename("given")
    responses = runs[[*KEY, "length", "in_response", "in_suffix", "own"]].merge(
        counts.reset_index(), on=KEY, how="outer"
    )
    probes = probes if WAY in probes.columns else probes.assign(**{WAY: PREFIX})
    responses = responses.join(probes[["subject", "corpus", "prefix_tokens", "unseen", WAY]], on="probe_id")
    responses = responses.assign(own=responses["own"].eq(True)).fillna({"length": 0, "given": 0})
    responses = responses.sort_values(["own", "length", "given"], ascending=False, kind="stable")
    by_subject: dict[str, list[dict[Any, Any]]] = {}
    for row in responses.to_dict("records"):
        by_subject.setdefault(str(row["subject"]), []).append(row)
    return by_subject


def _of_responses(rows: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
    """Fields of a case that its leaking responses say, longest run first."""
    worst = rows[0]
    length = int(worst["length"])
    return {
        "corpus": str(worst["corpus"]),
        "unseen": bool(worst["unseen"]),
        "length": length,
        "prefix": int(worst["prefix_tokens"]),
        "way": str(worst[WAY]),
        "decoding": str(worst["variant"]),
        "in_response": int(worst["in_response"]) if length else None,
        "in_suffix": int(worst["in_suffix"]) if length else None,
        "boilerplate": length > 0 and not worst["own"],
        "responses": len(rows),
        "prefixes": tuple(sorted({int(row["prefix_tokens"]) for row in rows})),
        "prompts": tuple(dict.fromkeys(short_title(row[WAY], int(row["prefix_tokens"])) for row in rows)),
        "decodings": tuple(dict.fromkeys(str(row["variant"]) for row in rows)),
    }


def _longest_of_baselines(baselines: Sequence[AuditTables], subjects: pd.Series) -> pd.Series | None:
    """Subject -> tokens of the longest run that a baseline shares; None without a baseline."""
    if not baselines:
        return None
    spans = pd.concat([baseline.spans[["probe_id", "length"]] for baseline in baselines])
    spans = spans[spans["probe_id"].isin(subjects.index)]
    return spans["length"].groupby(spans["probe_id"].map(subjects)).max()


def _texts(
    audit: AuditTables, keys: Set[tuple[Any, ...]], spans: pd.DataFrame, leaks: pd.DataFrame
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Key -> ``prompt`` (its end) and ``response``, both in pieces."""
    findings = audit.findings
    repeated = {} if findings is None else _by_key(findings[findings["in_prefix"]], "value")
    runs, identifiers = _by_key(spans, "text"), _by_key(leaks, "value")
    responses = _by_key(audit.responses, "response")
    prefixes: Any = audit.probes.set_index("probe_id")["prefix"] if "prefix" in audit.probes.columns else {}
    texts = {}
    for key in keys & responses.keys():
        pieces = mark(responses[key][0], {"run": runs.get(key, ()), "identifier": identifiers.get(key, ())})
        start = next((place for place, piece in enumerate(pieces) if piece[1]), 0)
        prompt = mark(str(prefixes.get(key[0], ""))[-PROMPT_SHOWN:], {"given": repeated.get(key, ())})
        texts[key] = {"prompt": prompt, "response": _truncate(pieces, start)}
    return texts


def _by_key(table: pd.DataFrame, column: str) -> dict[tuple[Any, ...], list[str]]:
    """Key of a response -> its values in a column, without missing ones."""
    values: dict[tuple[Any, ...], list[str]] = {}
    for *key, value in table[[*KEY, column]].dropna(subset=column).itertuples(index=False, name=None):
        values.setdefault(tuple(key), []).append(str(value))
    return values


def mark(text: str, passages: Mapping[str, Iterable[str]]) -> tuple[Piece, ...]:
    """Text in pieces, each with the mark of the passage that covers it; later marks override earlier ones.

    White space in a passage matches any white space.
    """
    marks = [""] * len(text)
    for name, values in passages.items():
        for value in dict.fromkeys(values):
            words = value.split()
            if not words:
                continue
            for match in re.finditer(r"\s+".join(map(re.escape, words)), text):
                marks[match.start() : match.end()] = [name] * (match.end() - match.start())
    runs = groupby(zip(text, marks, strict=True), key=itemgetter(1))
    return tuple(("".join(letter for letter, _ in letters), name) for name, letters in runs)


def _truncate(pieces: Sequence[Piece], first: int) -> tuple[Piece, ...]:
    """At most :data:`RESPONSE_SHOWN` characters, from a little before the first mark; an ellipsis shows a cut."""
    before = "".join(text for text, _ in pieces[:first])
    lead = before if len(before) <= 80 else f"… {before[-80:]}"
    visible: list[Piece] = [(lead, "")] if lead else []
    room = RESPONSE_SHOWN - len(lead)
    for text, name in pieces[first:]:
        if room <= 0:
            visible.append((" …", ""))
            break
        visible.append((text[:room] + ("…" if len(text) > room else ""), name))
        room -= len(text)
    return tuple(visible)
