"""The worst cases of an audit: one row per patient with any leak, under a pseudonym, worst first."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from medunlearn.audit.asking import short_title
from medunlearn.audit.audit_tables import KEY, WAY, AuditTables
from medunlearn.audit.extraction import labelled_probes
from medunlearn.audit.giveaways import IDENTITY, given_away
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
    runs = spans.sort_values("length", ascending=False, kind="stable").drop_duplicates(KEY)
    counts = leaks.drop_duplicates([*KEY, "kind", "key"]).groupby(KEY, sort=False).size().rename("given")
    touched = runs[[*KEY, "length", "in_response", "in_suffix"]].merge(counts.reset_index(), on=KEY, how="outer")
    if touched.empty:
        return ()
    probes = probes if WAY in probes.columns else probes.assign(**{WAY: PREFIX})
    touched = touched.join(probes[["subject", "corpus", "prefix_tokens", "unseen", WAY]], on="probe_id")
    touched = touched.fillna({"length": 0, "given": 0})
    touched = touched.sort_values(["length", "given"], ascending=False, kind="stable")
    response_counts = audit.scores.drop_duplicates(["item", "decoding", "sample"]).groupby("subject").size()
    beside = _longest_of_baselines(baselines, probes["subject"])
    kinds_of: Any = leaks.drop_duplicates(IDENTITY).groupby("subject")["kind"].agg(list) if len(leaks) else {}
    by_subject: dict[str, list[dict[Any, Any]]] = {}
    for row in touched.to_dict("records"):
        by_subject.setdefault(str(row["subject"]), []).append(row)
    cases = [
        (
            _case(subject, rows, audit.label, names, titles, kinds_of, response_counts, beside),
            tuple(rows[0][name] for name in KEY),
        )
        for subject, rows in by_subject.items()
    ]
    cases.sort(key=lambda pair: (-pair[0].identifiers, -pair[0].length, pair[0].patient))
    texts_by_key = _texts(audit, [key for _, key in cases[:show_text]], spans, leaks) if show_text else {}
    return tuple(_with_text(case, texts_by_key.get(key)) for case, key in cases)


def _case(
    subject: str,
    rows: Sequence[Mapping[Any, Any]],
    model: str,
    names: Mapping[str, str],
    titles: Mapping[str, str],
    kinds_of: Any,
    response_counts: pd.Series,
    beside: pd.Series | None,
) -> WorstCase:
    worst = rows[0]
    length = int(worst["length"])
    kinds = list(kinds_of.get(subject, []))
    return WorstCase(
        patient=names[subject],
        model=model,
        corpus=str(worst["corpus"]),
        unseen=bool(worst["unseen"]),
        length=length,
        prefix=int(worst["prefix_tokens"]),
        decoding=str(worst["variant"]),
        in_response=int(worst["in_response"]) if length else None,
        in_suffix=int(worst["in_suffix"]) if length else None,
        responses=len(rows),
        of=int(response_counts.get(subject, len(rows))),
        identifiers=len(kinds),
        kinds=tuple(sorted({titles.get(kind, kind) for kind in kinds})),
        prefixes=tuple(sorted({int(row["prefix_tokens"]) for row in rows})),
        decodings=tuple(dict.fromkeys(str(row["variant"]) for row in rows)),
        way=str(worst[WAY]),
        prompts=tuple(dict.fromkeys(short_title(row[WAY], int(row["prefix_tokens"])) for row in rows)),
        baseline=None if beside is None else int(beside.get(subject, 0)),
    )


def _longest_of_baselines(baselines: Sequence[AuditTables], subjects: pd.Series) -> pd.Series | None:
    """Subject -> tokens of the longest run that a baseline shares; None without a baseline."""
    if not baselines:
        return None
    spans = pd.concat([baseline.spans[["probe_id", "length"]] for baseline in baselines])
    spans = spans[spans["probe_id"].isin(subjects.index)]
    return spans["length"].groupby(spans["probe_id"].map(subjects)).max()


def _with_text(case: WorstCase, texts: tuple[tuple[Piece, ...], tuple[Piece, ...]] | None) -> WorstCase:
    return case if texts is None else replace(case, prompt=texts[0], response=texts[1])


def _texts(
    audit: AuditTables, keys: Sequence[tuple[Any, ...]], spans: pd.DataFrame, leaks: pd.DataFrame
) -> dict[tuple[Any, ...], tuple[tuple[Piece, ...], tuple[Piece, ...]]]:
    """Key -> the end of the prompt, and the response, both in pieces."""
    key_set = set(keys)
    responses = {
        key: str(text)
        for *key_parts, text in audit.responses[[*KEY, "response"]].itertuples(index=False, name=None)
        if (key := tuple(key_parts)) in key_set
    }
    prefixes: Any = audit.probes.set_index("probe_id")["prefix"] if "prefix" in audit.probes.columns else {}
    shared, leaks_by_key, repeated = _by_key(spans, "text", key_set), _by_key(leaks, "value", key_set), {}
    if audit.findings is not None:
        repeated = _by_key(audit.findings[audit.findings["in_prefix"]], "value", key_set)
    texts = {}
    for key, response in responses.items():
        pieces = mark(response, {"run": shared.get(key, ()), "identifier": leaks_by_key.get(key, ())})
        start = next((place for place, piece in enumerate(pieces) if piece[1]), 0)
        prompt = str(prefixes.get(key[0], ""))[-PROMPT_SHOWN:]
        texts[key] = mark(prompt, {"given": repeated.get(key, ())}), _truncate(pieces, start)
    return texts


def _by_key(table: pd.DataFrame, column: str, key_set: set[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[str]]:
    values: dict[tuple[Any, ...], list[str]] = {}
    for *key, value in table[[*KEY, column]].itertuples(index=False, name=None):
        if tuple(key) in key_set and isinstance(value, str):
            values.setdefault(tuple(key), []).append(value)
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
    pieces: list[Piece] = []
    for letter, name in zip(text, marks, strict=True):
        if pieces and pieces[-1][1] == name:
            pieces[-1] = pieces[-1][0] + letter, name
        else:
            pieces.append((letter, name))
    return tuple(pieces)


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
