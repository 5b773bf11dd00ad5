"""Response store on disk, keyed by the request's hash: a second run sends nothing.

One SQLite file in a folder. Each answer is a separate transaction in a write-ahead log: a killed process loses only
the requests in flight, and several processes share one store, each seeing the others' answers at once. Prompts are
not stored, only their hash. pandas reads it (:meth:`Store.table`, or ``pandas.read_sql`` on the file).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.origins import FINGERPRINT, is_rehearsal_model
from medunlearn.data.storage import make_folder
from medunlearn.errors import InputError, StorageError
from medunlearn.llm.requests import LogProbs, Outcome, ReplyDetails
from medunlearn.llm.usage import Usage

FILE = "responses.sqlite"
VERSION = 1
_USAGE = [field.name for field in fields(Usage)]
_NULL = {"log_probs": "TEXT", "temperature": "REAL", "seed": "INTEGER", "money": "REAL", "details": "TEXT"}
_COUNTS = {"sample", "max_tokens", *_USAGE[:-1]}


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A model's last reply to a request, with the request's settings.

    Attributes:
        key: hash of the request.
        status: ``answered``, ``invalid`` or ``refused``. Faults of server or network are not stored.
        reason: why it is not an answer.
        model: name in the key; ``served_model`` is the server's.
        usage: usage of all attempts.
        created: UTC, ISO 8601.
        details: of the last reply; None if an older version stored it.
    """

    key: str
    status: str
    reason: str
    text: str
    finish_reason: str
    log_probs: LogProbs | None
    model: str
    served_model: str
    system_fingerprint: str
    prompt_version: str
    temperature: float | None
    seed: int | None
    sample: int
    max_tokens: int
    usage: Usage
    created: str = ""
    details: ReplyDetails | None = None

    @property
    def drawn(self) -> bool:
        """True if a rehearsal drew it at random."""
        return self.system_fingerprint == FINGERPRINT or is_rehearsal_model(self.served_model)

    def outcome(self, request_id: str, value: Any = None, *, stored: bool = False) -> Outcome:
        """The stored response as the outcome of a request, with its parsed value."""
        # What is in the store has one of the three statuses that are kept.
        status: Any = self.status
        return Outcome(
            request_id,
            self.key,
            status,
            self.reason,
            self.text,
            value,
            self.finish_reason,
            self.log_probs,
            self.usage,
            stored=stored,
            drawn=self.drawn,
            created=self.created,
            prompt_version=self.prompt_version,
            served_model=self.served_model,
            details=self.details,
        )


_OWN = [field.name for field in fields(StoredResponse)]
_NAMES = [column for name in _OWN for column in (_USAGE if name == "usage" else [name])]
_COLUMNS = {name: _NULL.get(name, "INTEGER NOT NULL" if name in _COUNTS else "TEXT NOT NULL") for name in _NAMES}
_COLUMNS["key"] = "TEXT PRIMARY KEY"
_CREATE = f"CREATE TABLE IF NOT EXISTS responses ({', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())})"
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM responses"


class Store:
    """A folder with responses, readable only by its owner; created if missing.

    Raises:
        InputError: the path is something else.
        StorageError: the disk refuses.
    """

    def __init__(self, folder: Path | str) -> None:
        self.path = Path(folder) / FILE
        self._lock = threading.Lock()
        try:
            make_folder(self.path.parent)
            # Made before SQLite opens it, so that at no moment anyone else can read it; its log inherits the mode.
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self.path.chmod(0o600)
        except FileExistsError:
            raise InputError(
                f"{self.path.parent} is a file, not a folder. Choose another place for responses."
            ) from None
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}. Choose another place.") from error
        self._database = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            # Where a file system lets no processes share memory, SQLite stays with its older journal: safe, slower.
            self._run("PRAGMA journal_mode=WAL")
            self._run("PRAGMA synchronous=NORMAL")
            if self._run("PRAGMA user_version")[0][0] not in (0, VERSION):
                raise InputError(
                    f"{self.path} was written by another version of medunlearn. Choose another folder."
                )
            self._run(_CREATE)
            self._add_details()
            self._run(f"PRAGMA user_version={VERSION}")
            self._run(f"{_SELECT} LIMIT 1")
        except BaseException:
            self._database.close()
            raise

    @staticmethod
    @contextmanager
    def existing(folder: Path | str) -> Iterator[Store | None]:
        """The store of a folder, open; None (and nothing is created) if the folder has none."""
        if not (Path(folder) / FILE).exists():
            yield None
            return
        with Store(folder) as store:
            yield store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def get(self, key: str) -> StoredResponse | None:
        """The response to a request, by its key."""
        rows = self._run(f"{_SELECT} WHERE key = ?", (key,))
        return _to_stored(rows[0]) if rows else None

    def put(self, response: StoredResponse, *, replace: bool = False) -> StoredResponse:
        """Store a response durably.

        Args:
            replace: overwrite an existing response. Otherwise the first one stays, so that two processes with the
                same request use the same answer.

        Returns:
            The response in the store afterwards.
        """
        verb, places = "REPLACE" if replace else "IGNORE", ", ".join("?" for _ in _COLUMNS)
        into = f"responses ({', '.join(_COLUMNS)})"
        self._run(f"INSERT OR {verb} INTO {into} VALUES ({places})", _to_row(response))
        return self.get(response.key) or response

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM responses")[0][0])

    def spent(self) -> Usage:
        """Total usage of all stored responses."""
        *counts, money = self._run(f"SELECT {', '.join(f'sum({name})' for name in _USAGE)} FROM responses")[0]
        return Usage(**{name: int(n or 0) for name, n in zip(_USAGE, counts, strict=False)}, money=money)

    def mean_answer_tokens(self, prompt_version: str, model: str) -> float | None:
        """Mean number of tokens of the answers to one prompt; None without answers."""
        mean = "SELECT avg(1.0 * answer_tokens / max(requests, 1)) FROM responses"
        where = "WHERE prompt_version = ? AND model = ? AND status = 'answered'"
        (average,) = self._run(f"{mean} {where}", (prompt_version, model))[0]
        return None if average is None else float(average)

    def table(self) -> pd.DataFrame:
        """All responses, one row each, by key."""
        return pd.DataFrame(self._run(f"{_SELECT} ORDER BY key"), columns=list(_COLUMNS))

    def _add_details(self) -> None:
        """Add the column of a reply's details to a store that an older version made."""
        if "details" in {column[1] for column in self._run("PRAGMA table_info(responses)")}:
            return
        try:
            self._run("ALTER TABLE responses ADD COLUMN details TEXT")
        except StorageError as error:
            if "duplicate column" not in str(error):  # another process was faster
                raise

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock, closing(self._database.cursor()) as cursor:
                return cursor.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "no such column" not in str(error):
                raise StorageError(
                    f"{self.path}: {error}. Earlier responses stay; free disk space and continue."
                ) from error
            raise InputError(
                f"{self.path} is not a response store ({error}). Move it away, or choose another folder."
            ) from error


def _to_row(response: StoredResponse) -> tuple[Any, ...]:
    row = {name: getattr(response, name) for name in _OWN} | asdict(response.usage)
    row["log_probs"] = None if response.log_probs is None else json.dumps(asdict(response.log_probs))
    row["details"] = None if response.details is None else json.dumps(asdict(response.details))
    row["created"] = response.created or datetime.now(UTC).isoformat(timespec="seconds")
    return tuple(row[name] for name in _COLUMNS)


def _to_stored(row: tuple[Any, ...]) -> StoredResponse:
    values = dict(zip(_COLUMNS, row, strict=True))
    usage = Usage(**{name: values.pop(name) for name in _USAGE})
    if values["log_probs"] is not None:
        lists = json.loads(values["log_probs"])
        values["log_probs"] = LogProbs(**{name: tuple(part) for name, part in lists.items()})
    if values["details"] is not None:
        details = json.loads(values["details"])
        values["details"] = ReplyDetails(**{**details, "refused_fields": tuple(details["refused_fields"])})
    return StoredResponse(**values, usage=usage)
