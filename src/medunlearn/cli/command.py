"""A command generated from a function's parameters and its settings classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from medunlearn.cli.output import Output, handle_errors, view_of
from medunlearn.config.experiments import refuse_file_of_other_verb
from medunlearn.config.fields import Flag, flags_of, options_model, positionals
from medunlearn.config.reading import as_value, check, merge, read_yaml, with_server
from medunlearn.config.settings import Settings
from medunlearn.errors import ConfigError, nearest
from medunlearn.registry import load
from medunlearn.result_view import ResultView
from medunlearn.verb import Verb

SHORT = {"-q": "quiet", "-h": "help", "-j": "jobs"}
HIDDEN = ("quiet", "say", "llm_model", "confirm")
TEXTS = {
    "device": "auto, cpu, cuda, cuda:1, ...",
    "seed": "seed of everything random in this command",
    "preset": "defaults from `medunlearn list presets`; other flags win over them",
    "benchmark": "benchmark folder",
    "run": "run of the model",
    "against": "run to compare with, such as the target or the retrained model; repeatable",
    "epoch": "take the model after this many epochs (see keep_epochs)",
    "llm": "a judge's server as well, with /v1",
    "dry_run": "count requests, tokens and cost; send and write nothing",
    "again": "ask again what ended without a usable answer",
    "allow_missing": "finish though answers are missing",
    "allow_remote_llm": "permit sending protected text to a server off this machine",
    "audit": "folder of an audit",
    "judged": "run of `medunlearn judge`",
}
"""Help of parameters that mean the same in several commands; a docstring's ``Args`` win over it."""


def _switch(key: str, text: str, group: str = "Common") -> Flag:
    return Flag(key, "switch", False, False, group, "", "", text)


COMMON = {
    "quiet": _switch("quiet", "print nothing but errors"),
    "json": _switch("json", "print the result as JSON on standard output"),
    "help": _switch("help", "show this text"),
}
CONFIG_FILE = Flag("config", "text", False, False, "Common", "FILE", "", "YAML file of settings; flags win over it")


class Generated(click.Command):
    """A verb as a click command. Values are parsed by :meth:`read`, so that all mistakes are reported at once."""

    def __init__(self, verb: Verb) -> None:
        super().__init__(verb.words, help=verb.summary, add_help_option=False)
        self.verb = verb

    @cached_property
    def function(self) -> Any:
        return load(self.verb.call or f"medunlearn.api:{self.verb.name}")

    @cached_property
    def shower(self) -> Any:
        return load(self.verb.show) if self.verb.show else view_of

    @cached_property
    def models(self) -> list[list[type[Settings]]]:
        """The settings classes; each entry lists alternatives."""
        return [[load(path) for path in entry.split("|")] for entry in self.verb.settings.split()]

    @cached_property
    def options(self) -> type[Settings]:
        return _options(self.function, HIDDEN)

    @cached_property
    def own_options(self) -> type[Settings]:
        """Flags that only change the printed output."""
        return _options(self.shower, (*HIDDEN, "result", *self.options.model_fields, *self.setting_flags))

    @cached_property
    def arguments(self) -> list[inspect.Parameter]:
        return [p for p in positionals(self.function) if not (self.verb.out and p.name == "out")]

    @cached_property
    def setting_flags(self) -> dict[str, Flag]:
        models = [model for entry in self.models for model in entry]
        every = [pair for model in models for pair in flags_of(model).items()]
        first = {**dict(every), **dict(reversed(every))}  # of two with one key the first, in the first's place
        # What is a path to one class may be a number to the other.
        return {
            key: replace(flag, kind="yaml")
            if {"yaml", "text"} <= {own.kind for name, own in every if name == key}
            else flag
            for key, flag in first.items()
        }

    @cached_property
    def plan_flag(self) -> str:
        if not self.verb.plan:
            return ""
        return self.verb.plan_flag or ("plan" if self.verb.file else "dry_run")

    @cached_property
    def flags(self) -> dict[str, Flag]:
        """All flags by key: those of the settings, of the function, and the common ones."""
        places = {p.name for p in self.arguments}
        options = flags_of(self.options, "Options") | flags_of(self.own_options, "Options")
        # Unlike a setting, an option with several values is repeated.
        once = {key: replace(flag, metavar=flag.metavar.removesuffix(",...")) for key, flag in options.items()}
        flags = {key: flag for key, flag in once.items() if key not in places} | self.setting_flags
        if self.plan_flag:
            text = "print what is done, what is left and what it takes; run nothing"
            flags[self.plan_flag] = _switch(self.plan_flag, TEXTS.get(self.plan_flag, text), "Options")
            if self.plan_flag == "plan":
                flags["all"] = _switch("all", "with --plan: a table of all stages too", "Options")
                text = "with --plan: time this device first, for a second; later plans know its hours"
                flags["time_device"] = _switch("time_device", text, "Options")
        return flags | COMMON | ({"config": CONFIG_FILE} if self.verb.settings and not self.verb.file else {})

    # What click needs for shell completion.

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        places: list[click.Parameter] = [
            click.Argument([p.name], required=False, nargs=-1 if _many(p) else 1, type=click.Path())
            for p in self.arguments
        ]
        return [*places, *map(_option, self.flags.values())]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return [
                CompletionItem(f.name, help=f.help) for f in self.flags.values() if f.name.startswith(incomplete)
            ]
        return super().shell_complete(ctx, incomplete)

    # From words to a call.

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx._opt_prefixes = {"-", "--"}
        ctx.obj = list(args)
        return []

    @handle_errors
    def invoke(self, ctx: click.Context) -> None:
        if {"--help", "-h"} & set(ctx.obj):
            from medunlearn.cli.help import print_help

            texts = self.options.model_fields
            arguments = {p.name: texts[p.name].description or "" for p in self.arguments}
            print_help(self.verb, self.usage(), arguments, self.flags)
            return
        values, problems = self.read(ctx.obj)
        output = Output(quiet=bool(values.pop("quiet", False)), json=bool(values.pop("json", False)))
        self.check(values, problems)
        self.call(values, output)

    def read(self, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """Values by key, nested ones by dotted key, and what could not be understood."""
        values, problems, places = _Reader(self).read(words)
        for parameter in self.arguments:
            if _many(parameter) and places:
                values[parameter.name], places = tuple(places), []
            elif places and parameter.name not in values:
                values[parameter.name] = places.pop(0)
        problems += [f"{place!r} is one argument too many: {self.usage()}" for place in places]
        if file := values.pop("config", None):
            values = {**read_yaml(Path(file)), **values}
        return values, problems + self._missing(values)

    def _missing(self, values: Mapping[str, Any]) -> list[str]:
        """Required arguments and flags of the function that are missing; settings check their own."""
        fields = self.options.model_fields
        required = [k for k, f in fields.items() if f.is_required() and k not in self.setting_flags]
        names = {p.name: p.name.upper() for p in self.arguments}
        return [
            f"{names.get(key, '--' + key.replace('_', '-'))} is missing: {fields[key].description}"
            for key in dict.fromkeys((*required, *(["out"] * self.verb.out)))
            if key not in values
        ]

    def check(self, values: Mapping[str, Any], problems: list[str]) -> None:
        """Check values as far as possible without loading anything heavy.

        Raises:
            ConfigError: every mistake.
        """
        for model in (self.options, self.own_options):
            options = {k: v for k, v in values.items() if k in model.model_fields and k not in self.setting_flags}
            problems += [p for p in _problems(model, options) if " is missing: " not in p]
        settings = {key: v for key, v in values.items() if key.partition(".")[0] in self.setting_flags}
        if self.verb.file and (file := values.get(self.arguments[0].name)):
            settings = merge(read_yaml(Path(file)), settings)
        plain = {key: value for key, value in settings.items() if "." not in key}
        if self.verb.file:
            refuse_file_of_other_verb(self.verb.name, plain)
        sections: dict[str, dict[str, Any]] = {}
        for key, value in settings.items():
            section, dot, rest = key.partition(".")
            if dot:
                sections.setdefault(section, {})[rest] = value
        for entry in self.models:
            shared = set().union(*(model.model_fields for model in entry))
            fields = {key: value for key, value in plain.items() if len(self.models) == 1 or key in shared}
            fields |= {
                key: nested
                for key, nested in sections.items()
                if key in shared and key not in fields and not self.verb.file
            }
            fewest = min((_problems(model, fields) for model in entry), key=len)
            # Which of several classes is meant, and what does not go together, the function says.
            vague = len(entry) > 1
            problems += [p for p in fewest if not (vague and ("no setting" in p or " is missing: " in p))]
        if problems and self.verb.checker:
            problems += self._problems_of_owners(values)
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))

    def _problems_of_owners(self, values: Mapping[str, Any]) -> list[str]:
        """Mistakes in a method's settings (``--npo.beta``), found early so that all are reported at once."""
        of_owners = {k: v for k, v in values.items() if "." in k and k.partition(".")[0] not in self.setting_flags}
        try:
            if of_owners:
                load(self.verb.checker)({**of_owners, "method": values.get("method", "")}, tiny=None)
        except ConfigError as error:
            return [p for p in error.problems if " is missing: " not in p]
        return []

    def call(self, values: dict[str, Any], output: Output) -> None:
        timed = bool(values.pop("time_device", False))
        every = {"every": bool(values.pop("all", False))} if self.plan_flag == "plan" else {}
        if self.plan_flag and values.pop(self.plan_flag, False):
            if timed:
                load("medunlearn.study.plans.capacity:time_capacity")(values.get("device", "auto"))
            self._plan(values, output, every)
            return
        for flag, given in (("--all", any(every.values())), ("--time-device", timed)):
            if given:
                raise ConfigError([f"{flag} belongs to --plan: give both, or neither"])
        options = {key: values.pop(key) for key in self.own_options.model_fields if key in values}
        parameters, more = inspect.signature(self.function).parameters, dict[str, Any]()
        if "quiet" in parameters:
            more["quiet"] = output.quiet or output.json
        if "say" in parameters and not output.quiet:
            more["say"] = output.say
        function = load(self.verb.run) if self.verb.run else self.function
        result = function(**values, **more)
        names = inspect.signature(self.shower).parameters
        output.show(self.shower(result, **options, **{key: values[key] for key in names if key in values}))

    def _plan(self, values: dict[str, Any], output: Output, every: dict[str, bool]) -> None:
        plan = load(self.verb.plan)
        if not self.verb.out or every:
            output.show(plan(**values).view(**every))
            return
        settings = {key: value for key, value in values.items() if key.partition(".")[0] in self.setting_flags}
        plans = plan(with_server(settings), Path(values["out"]))
        lines = [*(f"{name}: {cost}" for name, cost in plans.items()), "Nothing was sent."]
        output.show(ResultView({name: cost.to_json() for name, cost in plans.items()}, notes=lines))

    def usage(self) -> str:
        names = [(p, f"{p.name.upper()}..." if _many(p) else p.name.upper()) for p in self.arguments]
        places = [name if p.default is p.empty else f"[{p.name.upper()}]" for p, name in names]
        return " ".join(("medunlearn", self.verb.words, *places))


class _Reader:
    """Parser of the flags and arguments of a command line."""

    def __init__(self, command: Generated) -> None:
        self.command, self.flags = command, command.flags
        self.owners = "arguments" in self.flags
        self.names_paths = any(p.name == "corpus" for p in command.arguments)  # NAME=PATH
        self.values: dict[str, Any] = {}
        self.problems: list[str] = []
        self.places: list[str] = []

    def read(self, words: Sequence[str]) -> tuple[dict[str, Any], list[str], list[str]]:
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self.places += rest
                break
            if word.startswith("--") or SHORT.get(word) in self.flags:
                self._flag(word, rest)
            elif word.startswith("-") and len(word) > 1 and not word[1].isdigit():
                self.problems.append(self._unknown(word))
            else:
                self._argument(word)
        return self.values, self.problems, self.places

    def _flag(self, word: str, rest: list[str]) -> None:
        name, equals, value = word.partition("=")
        key = SHORT.get(name, name.removeprefix("--").replace("-", "_"))
        flag, positive = self.flags.get(key), True
        if flag is None and key.startswith("no_") and key[3:] in self.flags:
            flag, positive = self.flags[key[3:]], False
        flag = flag or self._nested(key)
        if flag is None:
            self.problems.append(self._unknown(name))
            if not equals and rest and not rest[0].startswith("-"):
                rest.pop(0)
        elif flag.kind == "switch":
            truth = as_value(value) if equals else positive
            if not isinstance(truth, bool):
                self.problems.append(f"{name} is switched by {name} or --no-{name[2:]}, not by {value!r}")
            self.values[flag.key] = truth
        elif not equals and (not rest or rest[0].startswith("--")):
            self.problems.append(f"{name} needs a value: {flag.help}")
        else:
            self._set(flag, value if equals else rest.pop(0))

    def _nested(self, key: str) -> Flag | None:
        """True for a setting inside a section, or of a method or attack."""
        owner, dot, _ = key.partition(".")
        nested = dot and (self.owners or (owner in self.flags and self.flags[owner].section))
        return Flag(key, "yaml", False, False, "", "VALUE", "", "a value") if nested else None

    def _set(self, flag: Flag, text: str) -> None:
        # A patient's id may be "null".
        literal = flag.kind == "text" and (text != "null" or flag.key == "patient")
        value = text if literal else as_value(text)
        # A setting that is a list takes commas, and the last one counts; only other options are repeated.
        if flag.repeated or (flag.many and flag.key not in self.command.setting_flags):
            value = [*self.values.get(flag.key, []), value]
        self.values[flag.key] = value

    def _argument(self, word: str) -> None:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        setting = bool(equals) and bool(re.fullmatch(r"[A-Za-z][\w.:]*", key)) and not Path(word).exists()
        is_path = setting and self.names_paths and (Path(value).exists() or value.startswith("hub:"))
        if is_path and (key not in self.flags or "PATH" not in self.flags[key].metavar):
            self.places.append(word)  # a corpus may be called as a setting is: unseen=notes.csv
        elif setting and (key in self.flags or self._nested(key)):
            flag = key if ":" in key else key.replace("_", "-")
            self.problems.append(f"{word!r}: settings are flags, --{flag} {value}".rstrip())
        elif setting:
            self.problems.append(f"{word!r}: settings are flags. {self._unknown('--' + key)}")
        else:
            self.places.append(word)

    def _unknown(self, name: str) -> str:
        key = name[2:].replace("-", "_")
        sections = [model.SECTIONS for entry in self.command.models for model in entry]
        nested = (f"--{at}.{name[2:]}" for of in sections for at, model in of.items() if key in model.model_fields)
        near = next(nested, None) or nearest(name.replace("_", "-"), [flag.name for flag in self.flags.values()])
        hint = f" Did you mean {near}?" if near else f" `medunlearn {self.command.verb.words} --help` lists all."
        return f"There is no flag {name}.{hint}"


def _options(function: Callable[..., Any], skip: Sequence[str]) -> type[Settings]:
    """A settings class for a function's parameters, with the help text shared between commands."""
    model = options_model(function, skip)
    for name, field in model.model_fields.items():
        field.description = field.description or TEXTS.get(name, "")
    return model


def _problems(model: type[Settings], values: Mapping[str, Any]) -> list[str]:
    try:
        check(model, values)
    except ConfigError as error:
        return error.problems
    return []


def _many(parameter: inspect.Parameter) -> bool:
    return "Sequence[" in str(parameter.annotation)


def _option(flag: Flag) -> click.Option:
    kind: Any = click.Choice(flag.metavar.split("|")) if "|" in flag.metavar else None
    return click.Option([flag.name], is_flag=flag.kind == "switch", type=kind, help=flag.help)
