"""The declaration of a paper, in one object: its benchmark, measures, prompts, pages and help words.

A paper is a package whose ``__init__`` defines a :class:`Paper`. ``build``, ``run``, ``sweep``, ``report``,
``list``, YAML and Python are made from it; no other code names a paper. It is found under its name in
``medunlearn.papers.PAPERS``, as an entry point of the group ``medunlearn.papers``, by path
(``my_package:PAPER``), or in the variable ``MEDUNLEARN_PLUGINS`` (paths with commas). Everything that a paper
consists of is named as text, ``module:attribute``, so that reading declarations loads nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from medunlearn.errors import ConfigError, InputError, MedunlearnError, UnknownNameError, unknown_name
from medunlearn.registry import load, named_plugins, names, remember_plugin, resolve
from medunlearn.verb import Verb

NEUTRAL_MEASURES = ("rouge_l", "exact_match", "em", "te", "token_f1", "answer_probability")
"""Measures of a benchmark whose paper names none, or is not installed."""
EVERYWHERE = ("ranked_first",)
"""Measures of every evaluation besides those of the paper: what a model knows, whatever it says."""
IDENTIFIER = "identifier"
"""Level of rows that show once more, by type of identifier, what other rows of a grouping hold already."""

Target = str
"""``module:attribute``."""
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Breakdown of numbers in a paper's tables.

    Attributes:
        level: one group of numbers per node of this level.
        measures: kind of question -> (measure, the paper's name for it on that kind).
        of_identifiers: the same, shown again for each type of identifier that questions ask for.
        identifier: function from a question's provenance to the type of identifier that it asks for, or None.
        kinds: nodes of the level are kinds of documents, and a membership attack compares documents of one kind.
    """

    level: str
    measures: Mapping[str, tuple[str, str]]
    of_identifiers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    identifier: Target = ""
    kinds: bool = True

    def identifier_asked(self, provenance: str) -> str | None:
        """The type of identifier that a question of this provenance asks for; None: of none."""
        asked: str | None = load(self.identifier)(provenance) if self.identifier else None
        return asked


@dataclass(frozen=True, kw_only=True)
class Build:
    """One way to make a paper's benchmark.

    Attributes:
        words: the way in a message that asks to choose one: ``--synthetic N (patients to invent)``.
        settings: class of its settings; "" for a builder that takes the values as they are.
        given: settings one of which chooses this way; empty for a paper with one way.
        make: (settings) -> Benchmark, in memory.
        write: (values, folder, quiet=, say=) -> a result with the ``benchmark``: for builds that write to their
            folder as they go (a language model's answers, images).
        flags: further switches of ``write`` -> help text.
        plan: (values, folder) -> requests, tokens and cost of a language model by task.
        memory: settings under which ``make`` can do what otherwise needs a folder.
    """

    words: str = ""
    settings: Target = ""
    given: tuple[str, ...] = ()
    make: Target = ""
    write: Target = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    plan: Target = ""
    memory: Mapping[str, Any] = field(default_factory=dict)

    def is_chosen_by(self, values: Mapping[str, Any]) -> bool:
        return not self.given or any(values.get(key) not in (None, False) for key in self.given)


@dataclass(frozen=True, kw_only=True)
class Paper:
    """All that one paper says of itself; only ``name`` and ``title`` are required.

    Attributes:
        name: of the command ``build NAME``, and the ``builder`` that its benchmarks record.
        title: one line for lists.
        source: citation; "" if there is no publication behind the benchmark.
        package: its package, ``__name__``: the place of ``presets.yaml`` and other files.
        summary, example, first: of ``build NAME --help``; ``first`` are the flags shown first.
        argument: the setting that is also the positional argument.
        builds: ways to make its benchmark; none: it is no benchmark.
        measures: default measures of `evaluate`, in the order of its tables.
        own_measures: measures that only this paper has: name -> target.
        tasks: what a language model is asked to write: name of a task -> target.
        grouping: breakdown of its numbers.
        recurring_answers: its questions have short answers that recur, and are marked private or not.
        files: names in a benchmark folder that an interrupted build may leave, besides the benchmark's own.
        runs_page: (GatheredRuns) -> PaperPart of the report of runs.
        sweep_page: (models, benchmark, request) -> SweepReport; "" for the neutral page.
        views: verb -> (result, benchmark) -> View: what the verb shows of this paper's benchmarks besides.
        sources: reader of users' files -> (the flag or argument that it reads, its module).
        verbs, calls: further commands; further functions of ``import medunlearn``: name -> target.
        demos: name of ``demo NAME`` -> function of the folder and of those flags of `demo` that it takes.
        watch: an object with ``check``, ``measures`` and ``held_out``: measurements after epochs of `train`.
        missing: of a stand-in: why the benchmark's paper cannot be had; "" for a paper that is installed.
    """

    name: str
    title: str
    source: str = ""
    package: str = ""
    summary: str = ""
    example: str = ""
    first: str = "out"
    argument: str = ""
    builds: tuple[Build, ...] = ()
    measures: tuple[str, ...] = NEUTRAL_MEASURES
    own_measures: Mapping[str, Target] = field(default_factory=dict)
    tasks: Mapping[str, Target] = field(default_factory=dict)
    grouping: Grouping | None = None
    recurring_answers: bool = False
    files: tuple[str, ...] = ()
    runs_page: Target = ""
    sweep_page: Target = ""
    views: Mapping[str, Target] = field(default_factory=dict)
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    verbs: tuple[Verb, ...] = ()
    calls: Mapping[str, Target] = field(default_factory=dict)
    demos: Mapping[str, Target] = field(default_factory=dict)
    watch: Target = ""
    missing: str = ""

    def __post_init__(self) -> None:
        if problems := list(_problems(self)):
            raise ConfigError(problems)

    @property
    def default_measures(self) -> tuple[str, ...]:
        """Measures of `evaluate` where none are named."""
        return (*self.measures, *EVERYWHERE)

    def build_for(self, values: Mapping[str, Any]) -> Build:
        """The way to build that these settings choose.

        Raises:
            ConfigError: none or several.
        """
        ways = [build for build in self.builds if build.is_chosen_by(values)]
        if len(ways) == 1:
            return ways[0]
        if not self.builds:
            raise ConfigError([f"{self.name} is no benchmark: its paper declares no `builds`"])
        known = {key for build in self.builds if build.settings for key in load(build.settings).model_fields}
        unknown = [unknown_name("setting", key, known) for key in values if key.partition(".")[0] not in known]
        raise ConfigError([f"give either {' or '.join(build.words for build in self.builds)}", *unknown])

    def view(self, verb: str) -> Callable[..., Any] | None:
        """The function that shows what only this paper has of a verb's result; None without any."""
        return load(self.views[verb]) if verb in self.views else None

    def file(self, name: str) -> Traversable | None:
        """A file of the paper's package; None if there is none. A paper that is a single module has none."""
        if not self.package or not hasattr(import_module(self.package), "__path__"):
            return None
        path = files(self.package) / name
        return path if path.is_file() else None


def _problems(paper: Paper) -> Iterable[str]:
    """Mistakes of a declaration: the part, and the shape expected."""
    if not re.fullmatch(r"[a-z]\w*", paper.name):
        yield f"paper {paper.name!r}: name must be one lower-case word"
    single = ("runs_page", "sweep_page", "watch")
    targets: list[tuple[str, object]] = [(name, getattr(paper, name)) for name in single]
    for part in ("own_measures", "tasks", "views", "calls", "demos"):
        targets += [(f"{part}[{key!r}]", value) for key, value in getattr(paper, part).items()]
    builds: Sequence[object] = paper.builds
    for number, build in enumerate(builds):
        if not isinstance(build, Build):
            yield f"paper {paper.name}: builds[{number}] must be a medunlearn.paper.Build, not {build!r}"
            continue
        parts = ("settings", "make", "write", "plan")
        targets += [(f"builds[{number}].{part}", getattr(build, part)) for part in parts]
        if not build.make and not build.write:
            yield f"paper {paper.name}: builds[{number}] needs make or write, as 'module:function'"
        if len(paper.builds) > 1 and not (build.given and build.words):
            yield f"paper {paper.name}: builds[{number}] needs given and words, to be told from the others"
    for part, target in targets:
        if target and not (isinstance(target, str) and _TARGET.fullmatch(target)):
            yield f"paper {paper.name}: {part} must be text of the form 'module:attribute', not {target!r}"


def paper_targets() -> dict[str, str]:
    """Every paper by name with its target: ours, those of installed packages, those of ``MEDUNLEARN_PLUGINS``."""
    own = _own()
    by_path = {name: path for name, path in _by_path(tuple(named_plugins())).items() if name not in own}
    return {**own, **names("papers", own), **by_path}


def installed_papers() -> list[Paper]:
    """Every paper that can be loaded, our own first; a broken plug-in keeps nobody from the others."""
    return [paper for name in paper_targets() if not (paper := paper_of(name)).missing]


def own_papers() -> list[Paper]:
    """The papers of this package; unlike :func:`installed_papers`, no metadata of other packages is read."""
    return [load(target) for target in _own().values()]


def find_paper(name: str) -> Paper:
    """The paper of a name or path.

    Raises:
        UnknownNameError: no such paper; names the nearest one.
        InputError: what the name leads to cannot be imported, or is no :class:`Paper`.
    """
    try:
        paper = resolve("papers", name, {**_by_path(tuple(named_plugins())), **_own()})
    except UnknownNameError as error:
        raise UnknownNameError("benchmark", name, paper_targets()) from error
    if not isinstance(paper, Paper):
        raise InputError(
            f"paper {name!r} leads to a {type(paper).__name__}; it must be a medunlearn.paper.Paper: "
            "Paper(name='haiku', title='Haiku', package=__name__, builds=(Build(make='haiku.build:build'),))."
        )
    if ":" in name:
        remember_plugin(name)
    return paper


def paper_of(builder: str) -> Paper:
    """The paper of a benchmark, by the ``builder`` that it records; a neutral one if it is not installed.

    A path that the user did not name is not followed: a benchmark's folder may come from anybody, and importing is
    running code.
    """
    try:
        if builder in paper_targets():
            return find_paper(builder)
        reason = f"no paper {builder!r} is installed"
    except MedunlearnError as error:
        reason = str(error)
    return Paper(name=_plain(builder), title=builder, missing=reason)


def from_papers(part: str) -> dict[str, Any]:
    """A mapping that papers declare (``own_measures``, ``tasks``, ``calls``), of all installed ones together.

    Of two papers that declare one name the first is taken, so that none from outside replaces what is ours.
    """
    merged: dict[str, Any] = {}
    for paper in installed_papers():
        for name, value in getattr(paper, part).items():
            merged.setdefault(name, value)
    return merged


def watches() -> Sequence[Any]:
    """Measurements after epochs that papers offer to `train`.

    Raises:
        InputError: one of ours cannot be loaded. It is never left out: exact deletion asks it what was held out.
    """
    ours = own_papers()
    names_of_ours = {paper.name for paper in ours}
    others = [paper for paper in installed_papers() if paper.name not in names_of_ours]
    return [load(paper.watch) for paper in (*ours, *others) if paper.watch]


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name).lower().lstrip("_0123456789") or "unknown"


def _own() -> Mapping[str, str]:
    table: Mapping[str, str] = load("medunlearn.papers:PAPERS")
    return table


@cache
def _by_path(paths: tuple[str, ...]) -> Mapping[str, str]:
    """Name -> path of the papers among paths of plug-ins; one that cannot be loaded has its path for a name."""
    targets: dict[str, str] = {}
    for path in paths:
        try:
            plugin = resolve("papers", path, {})
        except InputError:
            targets[path] = path
        else:
            targets |= {plugin.name: path} if isinstance(plugin, Paper) else {}
    return targets
