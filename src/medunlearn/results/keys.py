"""Keys of runs: a hash of everything that changes their numbers.

Execution settings change numbers only by rounding; they are recorded in ``run.json`` but not part of the key, so
that a run that ran out of memory can resume with smaller passes. Dropout is the exception: a LoRA adapter's draws
depend on the pass, so with ``lora_dropout`` the settings in :data:`DRAWS` count. A model's own dropout is not known
from the settings; its runs resume with other draws.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import medunlearn
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import InputError
from medunlearn.results.record import FILE, RunRecord

ALWAYS_OUTSIDE = frozenset({"checkpoint_seconds", "allow_broken", "merge_adapter", "tracker", "allow_tracking"})
DRAWS = frozenset({"micro_batch_size", "micro_batch_tokens", "gradient_checkpointing"})
"""Settings that decide which elements dropout leaves out; without dropout they change rounding alone."""
LOOP = DRAWS | {"offload", "sharding", "keep_gb"}
PASSES = frozenset({"batch_size"})
"""Of a command that trains nothing: how many sequences per pass holds. A training's ``batch_size`` is a step's."""
OUTSIDE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("train", "unlearn"), LOOP),
    **dict.fromkeys(("evaluate", "attack", "utility"), PASSES),
}
"""Command -> settings that are recorded and not in its key, besides :data:`ALWAYS_OUTSIDE`."""
LATER: Mapping[str, Any] = {
    "relatives": 0.0,
    "more_measures": [],
    "chunks": 1,
    "retain_ratio": 1,
    "stop": "none",
    "stop_floor": 0.95,
}
"""Settings that older records lack -> the value at which they change nothing, and stay out of the key."""
SECTIONS = ("evaluate", "attack", "utility")


def run_key(verb: str, config: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """SHA-256 over everything that a run's result depends on: its relevant settings, inputs, and our version."""
    return sha256_of_json([verb, counted(verb, config), dict(inputs), medunlearn.__version__])


def counted(verb: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a command, and of its sections, that change its numbers."""
    outside = ALWAYS_OUTSIDE | OUTSIDE.get(verb, frozenset())
    if config.get("lora_dropout"):
        outside -= DRAWS
    outside |= {name for name, value in LATER.items() if config.get(name) == value}
    settings = {name: value for name, value in config.items() if name not in outside}
    if verb in ("train", "unlearn"):
        for section in SECTIONS:
            if isinstance(settings.get(section), Mapping):
                settings[section] = counted(section, settings[section])
    return settings


def is_same_run(record: RunRecord, key: str) -> bool:
    """True if a record belongs to the run with this key, by its own key or by the key of a 0.2.0 development
    version.

    These versions had every setting but :data:`ALWAYS_OUTSIDE` in the key. A record whose settings do not hash to
    its key was edited or written by another version, and does not match.
    """
    if record.key == key:
        return True
    settings = {name: value for name, value in record.config.items() if name not in ALWAYS_OUTSIDE}
    earlier = sha256_of_json([record.verb, settings, dict(record.inputs), medunlearn.__version__])
    return record.key == earlier and run_key(record.verb, record.config, record.inputs) == key


def keyed_folder(parent: Path, name: str, key: str) -> Path:
    """Folder of a run below ``parent``: by name and key; or another that contains the run, a complete one first.

    A run made by hand, or with an earlier key, has another name and is found by its record.
    """
    plain = "".join(letter if letter.isalnum() else "_" for letter in name)[:40]
    own = parent / f"{plain}-{key[:8]}"
    if (own / FILE).exists():
        return own
    candidates = []
    with suppress(OSError):
        for entry in os.scandir(parent):
            with suppress(OSError, InputError):
                stat = os.stat(os.path.join(entry.path, FILE))
                record = _read(entry.path, stat.st_mtime_ns, stat.st_size)
                if is_same_run(record, key):
                    candidates.append((record.complete, stat.st_mtime_ns, Path(entry.path)))
    return max(candidates)[2] if candidates else own


@lru_cache(maxsize=1024)
def _read(folder: str, mtime_ns: int, size: int) -> RunRecord:
    """Read a record, cached until its file changes."""
    return RunRecord.read(Path(folder))


def differences(there: RunRecord, here: RunRecord) -> Iterator[str]:
    """Differences between two runs, for a message."""
    if there.verb != here.verb:
        yield f"verb: {there.verb or None} there, {here.verb} here"
        return
    configs = counted(there.verb, there.config), counted(here.verb, here.config)
    for before, now in (configs, (there.inputs, here.inputs)):
        for name in sorted(set(before) | set(now)):
            if before.get(name) != now.get(name):
                yield f"{name}: {_short(before.get(name))} there, {_short(now.get(name))} here"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."
