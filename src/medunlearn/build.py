"""One call per benchmark (``mu.build.amnesia(...)``, ``lume``, ...): in memory, or saved with ``out``.

Settings are keywords, the same as the flags of `medunlearn build NAME --help`. Calls are made from what papers
declare of themselves (:class:`medunlearn.paper.Paper`); a paper of your own is ``mu.build("my_package:PAPER")``.
Every call raises ConfigError with all mistakes, and SourceError for files that cannot be read.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from medunlearn.config.reading import with_server
from medunlearn.errors import UnknownNameError
from medunlearn.paper import Paper, find_paper, paper_targets
from medunlearn.registry import load

if TYPE_CHECKING:
    from medunlearn.data.benchmark import Benchmark

Say = Callable[[str], None]
Location = Path | str
FOLDER = "folder of the benchmark"


@cache
def build_call(name: str) -> Callable[..., Benchmark]:
    """The call that builds a paper's benchmark, with the paper's own argument, flags and help.

    Args:
        name: of the paper, or its path.
    """
    paper = find_paper(name)

    def build(
        *arguments: Any, out: Location | None = None, quiet: bool = True, say: Say = print, **settings: Any
    ) -> Benchmark:
        from medunlearn.study.benchmark_builds import build_benchmark

        given = signature.bind(*arguments, **settings).arguments
        flags = {key: given.pop(key) for key in flag_names if key in given}
        values = with_server({**given.pop("settings", {}), **given})
        values = {key: value for key, value in values.items() if value is not None}
        return build_benchmark(paper, values, None if out is None else Path(out), flags, quiet=quiet, say=say)

    flag_names = list(dict.fromkeys(flag for way in paper.builds for flag in way.flags))
    signature = _signature(paper, flag_names)
    build.__name__ = build.__qualname__ = paper.name
    build.__doc__ = _doc(paper)
    build.__signature__ = signature  # type: ignore[attr-defined]
    return build


def _signature(paper: Paper, flags: list[str]) -> inspect.Signature:
    """The paper's argument, then ``out``, its switches, ``quiet`` and ``say``, then any setting."""
    named = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("out", named, default=None, annotation=Location | None),
        *(inspect.Parameter(flag, named, default=False, annotation=bool) for flag in flags),
        inspect.Parameter("quiet", named, default=True, annotation=bool),
        inspect.Parameter("say", named, default=print, annotation=Say),
        inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD, annotation=Any),
    ]
    if paper.argument:
        default = inspect.Parameter.empty if _is_required(paper) else None
        place = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.insert(0, inspect.Parameter(paper.argument, place, default=default, annotation=Location | None))
    return inspect.Signature(parameters)


def _fields(paper: Paper) -> dict[str, Any]:
    """Fields of the paper's settings classes; of two with one name the first."""
    classes = [load(way.settings) for way in reversed(paper.builds) if way.settings]
    return {key: field for cls in classes for key, field in cls.model_fields.items()}


def _is_required(paper: Paper) -> bool:
    field = _fields(paper).get(paper.argument)
    return len(paper.builds) == 1 and field is not None and field.is_required()


def _doc(paper: Paper) -> str:
    help_texts = {"out": FOLDER} | {flag: text for way in paper.builds for flag, text in way.flags.items()}
    if paper.argument and paper.argument in (fields := _fields(paper)):
        help_texts = {paper.argument: fields[paper.argument].description or ""} | help_texts
    return "\n".join([paper.summary or paper.title, "", "Args:", *(f"    {k}: {v}" for k, v in help_texts.items())])


class _Builds(ModuleType):
    """This module, with a call for each paper as an attribute, and callable with a paper's name or path."""

    def __getattr__(self, name: str) -> Callable[..., Benchmark]:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return build_call(name)
        except UnknownNameError as error:
            raise AttributeError(str(error)) from error

    def __call__(self, paper: str, /, *arguments: Any, **settings: Any) -> Benchmark:
        return build_call(paper)(*arguments, **settings)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *paper_targets()})


sys.modules[__name__].__class__ = _Builds
