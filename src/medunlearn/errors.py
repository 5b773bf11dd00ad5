"""Every error that medunlearn raises deliberately.

    MedunlearnError                  the run failed                                   exit code 1
    ├── InputError                   something the user gave is wrong                 exit code 2
    │   ├── ConfigError              one or more settings; all are reported at once
    │   ├── UnknownNameError         no such method, metric, builder, key, node, ...
    │   ├── BenchmarkError           a benchmark folder that does not match itself
    │   ├── SourceError              a row or file of a user's data that cannot be read
    │   ├── ModelError               a model folder that cannot be used
    │   ├── NotApplicableError       an attack that a benchmark or a model has nothing for
    │   └── OutOfMemoryError         training does not fit in memory with these settings; what was done is kept
    ├── NonFiniteLossError           a loss or a weight became NaN or infinite; the last good checkpoint is kept
    ├── FrozenParametersError        parameters that should have moved did not
    ├── ProcessError                 another process of the run failed, or was lost
    ├── HubError                     a model hub refused, or could not be reached
    └── StorageError                 the disk refused a write (full, read-only, no permission)

The command line prints the message alone, without a traceback. A message says what is wrong, where,
and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class MedunlearnError(Exception):
    """Base of all deliberate errors."""

    exit_code = 1


class InputError(MedunlearnError):
    """Invalid user input; the message names the fix."""

    exit_code = 2


class ConfigError(InputError):
    """All mistakes of a configuration, collected.

    Args:
        problems: one line per mistake, each naming the key and the fix.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        several = f"{len(self.problems)} settings are wrong:{bullet_list(self.problems)}"
        super().__init__(self.problems[0] if len(self.problems) == 1 else several)


class UnknownNameError(InputError):
    """An unknown name; the message suggests the nearest valid one.

    Args:
        valid_names: the valid names; None for patient ids, which must not be disclosed.
    """

    def __init__(self, what: str, name: str, valid_names: Iterable[str] | None) -> None:
        super().__init__(
            f"There is no {what} {name!r}." if valid_names is None else unknown_name(what, name, valid_names)
        )


class BenchmarkError(InputError):
    """A benchmark folder that cannot be read or does not match its manifest."""


class SourceError(InputError):
    """A file or row of a user's data that cannot be read; carries the line numbers."""


class ModelError(InputError):
    """A model folder or hub id that cannot be used."""


class NotApplicableError(InputError):
    """An attack that a benchmark or a model has nothing for, such as one on images where there are none.

    A set of attacks goes on without it and does not fail by it; an attack that was named by itself does.
    """


class OutOfMemoryError(InputError):
    """Training does not fit in memory with these settings.

    Args:
        torn: memory ran out in the middle of a step, so the weights in memory are unusable.
    """

    def __init__(self, message: str, *, torn: bool = False) -> None:
        super().__init__(message)
        self.torn = torn


class NonFiniteLossError(MedunlearnError):
    """A loss term, gradient or weight became NaN or infinite; training stopped at the last good checkpoint."""


class FrozenParametersError(MedunlearnError):
    """Parameters that should have been trained are bit-equal to their initial values."""


class StorageError(MedunlearnError):
    """The disk refused a write."""


class ProcessError(MedunlearnError):
    """Another process of the same run failed or disappeared.

    Args:
        exit_code: exit code of that process.
        lost: it disappeared without an error message.
    """

    def __init__(self, message: str, exit_code: int = 1, *, lost: bool = False) -> None:
        super().__init__(message)
        self.exit_code, self.lost = exit_code, lost


class HubError(MedunlearnError):
    """A model hub refused a push, or could not be reached."""


def first_line(error: BaseException, most: int = 200) -> str:
    """The first line of an error's text, cut behind a word and marked, or its type if the text is empty."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= most else f"{line[:most].rpartition(' ')[0] or line[:most]} ..."


def first_few(names: Sequence[str], most: int = 3) -> str:
    """``a, b, c, ...``: at most ``most`` names; without the dots if these are all."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def bullet_list(lines: Sequence[str], most: int | None = None) -> str:
    """A bullet list: at most ``most`` lines, then the number of remaining ones."""
    bullets = "".join(f"\n  - {line}" for line in lines[:most])
    return bullets + (f"\n  ... and {len(lines) - most} more" if most is not None and len(lines) > most else "")


def nearest(name: str, valid_names: Iterable[str]) -> str | None:
    """The known name most similar to a misspelt one."""
    return next(iter(get_close_matches(name.lower(), list(valid_names), n=1, cutoff=0.5)), None)


def unknown_name(what: str, name: str, valid_names: Iterable[str], *, most: int = 12) -> str:
    """One sentence that refuses a name: first the nearest valid name, then known names (at most ``most``)."""
    names = sorted(valid_names)
    near = nearest(name, names)
    hint = f" Did you mean {near!r}?" if near else ""
    total = f" ({len(names)} in all)" if len(names) > most else ""
    return f"There is no {what} {name!r}.{hint} Known: {first_few(names, most) or 'none'}{total}."
