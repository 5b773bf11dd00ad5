"""Purge: list every file under some folders that contains a patient, and delete them after confirmation.

A file is deleted as a whole, including data of others: a benchmark's tables, the weights of a model. Nothing
outside the given folders is touched, symbolic links are not followed, and a file that changed since the search
stays. Files are only unlinked: backups, snapshots and free disk blocks keep their content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import sha256_of
from medunlearn.errors import ConfigError, InputError
from medunlearn.reports.blocks import Facts
from medunlearn.reports.view import ResultView
from medunlearn.request.holders.file_search import find_holders
from medunlearn.request.holders.holder_log import Holder, Holders

Outcome = Literal["listed", "kept", "deleted", "changed", "refused"]


@dataclass(frozen=True)
class PurgedFile:
    """A file that contains the patient, and the outcome of its deletion.

    Attributes:
        outcome: ``listed`` without confirmation; ``kept``: of a kind not selected; ``changed``: its content changed
            since the search; ``refused``: the system did not delete it.
        names: other hard links to the file, which still exist.
    """

    holder: Holder
    outcome: Outcome
    note: str = ""
    names: int = 0


@dataclass(frozen=True)
class Purge:
    """Result of a purge."""

    files: tuple[PurgedFile, ...]
    log: Holders = field(repr=False)
    confirmed: bool = False

    @property
    def remaining(self) -> list[PurgedFile]:
        """Files that still contain the patient though their deletion was confirmed, except those kept on
        purpose.
        """
        return [
            file
            for file in self.files
            if file.outcome in ("changed", "refused") or (file.outcome == "deleted" and file.names)
        ]

    def table(self) -> pd.DataFrame:
        """One row per file: path, kind, how, bytes, outcome, note."""
        pairs = ((file, file.holder) for file in self.files)
        rows = [
            (str(holder.path), holder.kind, ", ".join(holder.evidence), holder.bytes, file.outcome, file.note)
            for file, holder in pairs
        ]
        return pd.DataFrame(rows, columns=["path", "kind", "how", "bytes", "outcome", "note"])

    def view(self) -> ResultView:
        """The files that contain the patient, and the outcome for each; a failure if one was to be deleted."""
        lines = [
            (
                f"{row['outcome']}: {row['path']}",
                f"{row['kind']}: {row['how']}" + (row["note"] and f" ({row['note']})"),
            )
            for row in self.table().to_dict("records")
        ]
        outcomes, last = Counter(item.outcome for item in self.files), None
        if outcomes:
            more = "" if self.confirmed else " Nothing was deleted: --yes deletes the listed files."
            last = ", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.items()) + "." + more
        data = {
            "deleted": self.confirmed,
            "complete": self.log.complete,
            "files": self.log.files,
            "rows": self.table(),
            "not_looked_at": [{"path": str(item.path), "reason": item.reason} for item in self.log.unread],
        }
        blocks = (Facts((*lines, *self.log.unread_facts)), self.log.extent("the patient"), last)
        left = self.remaining
        failure = f"{len(left)} files still hold the patient: {left[0].note}." if left else ""
        return ResultView(data, blocks, failure=failure)


def purge_patient(
    folders: Sequence[Path],
    benchmark: Benchmark | None,
    patient: str | None,
    *,
    identifiers: Iterable[str] = (),
    kinds: Iterable[str] = (),
    confirmed: bool = False,
    quiet: bool = False,
) -> Purge:
    """List every file that contains a patient, and delete them if confirmed.

    Args:
        benchmark, patient, identifiers: the subject (:func:`medunlearn.request.holders.file_search.find_holders`).
        kinds: of the files to delete (``weights``, ``store``, ...); none: all.
        confirmed: delete.

    Raises:
        InputError: no subject, no such folder, or the root of the file system.
        UnknownNameError: no such patient; the message never names another.
        ConfigError: a kind without files.
    """
    roots = [folder.resolve() for folder in folders]
    if any(root == Path(root.anchor) for root in roots):
        raise InputError(
            "The root of the file system cannot be purged. Name the folders that may hold the patient."
        )
    log = find_holders(folders, benchmark, patient, identifiers=identifiers, quiet=quiet)
    kinds = {*kinds}
    if unknown := kinds - {holder.kind for holder in log.holders}:
        raise ConfigError([f"--kinds {kind}: no file of this kind holds the patient" for kind in sorted(unknown)])
    # The benchmark was read; what it tells is no longer needed on the disk.
    files = [
        PurgedFile(holder, "kept" if confirmed else "listed")
        if not confirmed or (kinds and holder.kind not in kinds)
        else _delete(holder, roots)
        for holder in log.holders
    ]
    return Purge(tuple(files), log, confirmed)


def _delete(holder: Holder, roots: Sequence[Path]) -> PurgedFile:
    path = holder.path
    try:
        # Looked at again: a folder above may have become a link since.
        if path.is_symlink() or not any(path.resolve().is_relative_to(root) for root in roots):
            return PurgedFile(holder, "refused", "it is no longer inside of the given folders")
        if sha256_of(path) != holder.sha256:
            return PurgedFile(holder, "changed", "it was changed after it was looked at: give the command again")
        others = path.stat().st_nlink - 1
        path.unlink()
    except FileNotFoundError:
        return PurgedFile(holder, "deleted", "something else deleted it")
    except (OSError, InputError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        return PurgedFile(holder, "refused", why)
    note = f"{others} further names of the file (hard links) are left" if others else ""
    return PurgedFile(holder, "deleted", note, others)
