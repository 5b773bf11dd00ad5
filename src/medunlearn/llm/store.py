"""Response store on disk, keyed by the hash of the request: a second run sends nothing.

One SQLite file in a folder. Each answer is a transaction of its own in a write-ahead log: a process that is killed
at any moment loses what was in flight and nothing else, and several processes share one store, each seeing the
others' answers at once. Prompts are not kept, only their hash. pandas reads it (:meth:`Store.table`, or
``pandas.read_sql`` on the file).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.errors import InputError, StorageError
from medunlearn.llm.requests import LogProbs, Outcome
from medunlearn.llm.usage import Usage

FILE = "responses.sqlite"
VERSION = 1
_COLUMNS = {
    "key": "TEXT PRIMARY KEY",
    "status": "TEXT NOT NULL",
    "reason": "TEXT NOT NULL",
    "text": "TEXT NOT NULL",
    "finish_reason": "TEXT NOT NULL",
    "log_probs": "TEXT",
    "model": "TEXT NOT NULL",
    "served_model": "TEXT NOT NULL",
    "system_fingerprint": "TEXT NOT NULL",
    "prompt_version": "TEXT NOT NULL",
    "temperature": "REAL",
    "seed": "INTEGER",
    "sample": "INTEGER NOT NULL",
    "max_tokens": "INTEGER NOT NULL",
    "requests": "INTEGER NOT NULL",
    "prompt_tokens": "INTEGER NOT NULL",
    "answer_tokens": "INTEGER NOT NULL",
    "estimated_tokens": "INTEGER NOT NULL",
    "money": "REAL",
    "created": "TEXT NOT NULL",
}
_CREATE = f"CREATE TABLE IF NOT EXISTS responses ({', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())})"
_PLACES = ", ".join("?" for _ in _COLUMNS)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A model's last reply to a request, and how it was asked.

    Attributes:
        key: hash of what was asked.
        status: ``answered``, ``invalid`` or ``refused``. What a server or the network did is not kept.
        reason: why it is not an answer.
        text, finish_reason, log_probs: as in an outcome.
        model: its name in the key; ``served_model`` is what the server called it.
        temperature, seed, sample, max_tokens, prompt_version: how it was asked.
        usage: of all attempts together.
        created: UTC, ISO 8601.
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

    def outcome(self, request_id: str, value: Any = None, *, stored: bool = False) -> Outcome:
        """As the outcome of a request, with its parsed value."""
        response = (self.text, value, self.finish_reason, self.log_probs, self.usage, stored)
        # What is in the store has one of the three statuses that are kept.
        status: Any = self.status
        return Outcome(request_id, self.key, status, self.reason, *response)


class Store:
    """A folder with responses, private to its owner.

    Args:
        folder: made if it is not there.

    Raises:
        InputError: there is something else at its place.
        StorageError: the disk refuses.
    """

    def __init__(self, folder: Path | str) -> None:
        self.path = Path(folder) / FILE
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
            self._prepare()
        except BaseException:
            self._database.close()
            raise

    def _prepare(self) -> None:
        try:
            # Where a file system lets no processes share memory, SQLite stays with its older journal: safe, slower.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise InputError(
                    f"{self.path} was written by another version of medunlearn. Choose another folder."
                )
            self._database.execute(_CREATE)
            self._database.execute(f"PRAGMA user_version={VERSION}")
            self._database.execute(f"SELECT {', '.join(_COLUMNS)} FROM responses LIMIT 1")
        except sqlite3.DatabaseError as error:
            raise self._translated(error) from error

    @staticmethod
    @contextmanager
    def existing(folder: Path | str) -> Iterator[Store | None]:
        """The store of a folder, open; None, and nothing is made, where the folder has none."""
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
        rows = self._run(f"SELECT {', '.join(_COLUMNS)} FROM responses WHERE key = ?", (key,))
        return _to_stored(rows[0]) if rows else None

    def put(self, response: StoredResponse, *, replace: bool = False) -> StoredResponse:
        """Keep a response; it outlives the process when this returns.

        Args:
            replace: a response that is there gives way. Otherwise the first stays, so that two processes that asked
                the same go on with the same answer.

        Returns:
            what is in the store now.
        """
        verb = "INSERT OR REPLACE" if replace else "INSERT OR IGNORE"
        self._run(f"{verb} INTO responses VALUES ({_PLACES})", _to_row(response))
        return self.get(response.key) or response

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM responses")[0][0])

    def spent(self) -> Usage:
        """What all stored responses cost together."""
        sums = "sum(requests), sum(prompt_tokens), sum(answer_tokens), sum(estimated_tokens), sum(money)"
        *counts, money = self._run(f"SELECT {sums} FROM responses")[0]
        requests, prompt, answer, estimated = (int(count or 0) for count in counts)
        return Usage(requests, prompt, answer, estimated, money)

    def mean_answer_tokens(self, prompt_version: str, model: str) -> float | None:
        """Of the answers to one prompt; None if there are none."""
        where = "WHERE prompt_version = ? AND model = ? AND status = 'answered'"
        (mean,) = self._run(
            f"SELECT avg(1.0 * answer_tokens / max(requests, 1)) FROM responses {where}", (prompt_version, model)
        )[0]
        return None if mean is None else float(mean)

    def table(self) -> pd.DataFrame:
        """All responses, one row each, by key."""
        with self._lock, closing(self._database.cursor()) as cursor:
            rows = cursor.execute(f"SELECT {', '.join(_COLUMNS)} FROM responses ORDER BY key").fetchall()
        return pd.DataFrame(rows, columns=list(_COLUMNS))

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock, closing(self._database.cursor()) as cursor:
                return cursor.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._translated(error) from error

    def _translated(self, error: sqlite3.DatabaseError) -> InputError | StorageError:
        if isinstance(error, sqlite3.OperationalError) and "no such column" not in str(error):
            return StorageError(f"{self.path}: {error}. What was stored before stays; free the disk and go on.")
        return InputError(
            f"{self.path} is no store of responses ({error}). Move it away, or choose another folder."
        )


def _to_row(response: StoredResponse) -> tuple[Any, ...]:
    usage = asdict(response.usage)
    log_probs = None if response.log_probs is None else json.dumps(asdict(response.log_probs))
    own = {name: getattr(response, name) for name in _COLUMNS if name not in usage}
    created = response.created or datetime.now(UTC).isoformat(timespec="seconds")
    row = {**own, **usage, "log_probs": log_probs, "created": created}
    return tuple(row[name] for name in _COLUMNS)


def _to_stored(row: tuple[Any, ...]) -> StoredResponse:
    values = dict(zip(_COLUMNS, row, strict=True))
    usage = Usage(**{name: values.pop(name) for name in Usage.__dataclass_fields__})
    found = values.pop("log_probs")
    log_probs = (
        None if found is None else LogProbs(**{name: tuple(part) for name, part in json.loads(found).items()})
    )
    return StoredResponse(**values, log_probs=log_probs, usage=usage)
