"""Loop of the process that renders templates and tries patterns of strangers (:mod:`medunlearn.template_process`).

It is started as a file, with nothing of medunlearn or torch loaded, which takes 0.2 CPU seconds. Each line of its
input is a request as JSON, each line of its output the answer. A request that takes too many CPU seconds ends it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

MEMORY = 1 << 29
"""Bytes of address space besides what the process starts with."""


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started this, and ends the input
    first = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = first["path"]
    _load(first["chat"])
    _limit_memory()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_VIRTUAL, request["seconds"])
        answer = _answer(request).encode()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        answers.write(answer + b"\n")
        answers.flush()


def _limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError, IndexError):  # not on every system
        import resource

        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _answer(request: dict[str, Any]) -> str:
    """The answer to a request, as JSON."""
    try:
        result = WAYS[request["way"]](**request["arguments"])
        text = json.dumps(result)
        if len(result if isinstance(result, str) else text) <= request["length"]:
            return f'{{"result": {text}}}'
        failure = {"limit": "length"}
    except MemoryError:
        failure = {"limit": "memory"}
    except RecursionError:
        failure = {"error": "it calls itself without an end"}
    except SyntaxError as error:
        failure = {"error": str(error)}
    except Exception as error:  # a template may raise anything
        failure = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
    return json.dumps(failure)


def _load(chat: bool) -> None:
    """Load what renders before memory is limited."""
    if chat:
        _chat_templates()
    else:
        import jinja2.sandbox  # noqa: F401


@lru_cache(maxsize=1)
def _chat_templates() -> Any:
    """Module of transformers that renders chat templates, without the packages above it, which take a second."""
    from importlib import import_module
    from importlib.util import find_spec
    from types import ModuleType

    if "transformers" not in sys.modules:
        specification = find_spec("transformers")
        for root in (specification.submodule_search_locations if specification else None) or ():
            for name, path in (("transformers", root), ("transformers.utils", os.path.join(root, "utils"))):
                package = ModuleType(name)
                package.__path__ = [path]
                sys.modules[name] = package
            break
    return import_module("transformers.utils.chat_template_utils")


def render_chat(today: str | None, arguments: dict[str, Any]) -> Any:
    """Transformers' rendering of conversations: the texts, and the places of what an assistant said."""
    from datetime import datetime
    from types import SimpleNamespace

    module = _chat_templates()
    module.datetime = datetime if today is None else SimpleNamespace(now=lambda: datetime.fromisoformat(today))
    return module.render_jinja_template(**arguments)


@lru_cache(maxsize=64)
def _prompt(template: str, options: tuple[str, ...]) -> Any:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    strict = {"undefined": StrictUndefined} if "strict" in options else {}
    flags = {option: True for option in options if option != "strict"}
    return ImmutableSandboxedEnvironment(**strict, **flags).from_string(template)


def render_prompt(template: str, options: list[str], fields: dict[str, Any]) -> str:
    """A template of a file, with fields filled in."""
    return str(_prompt(template, tuple(options)).render(fields))


def placeholders(template: str) -> list[str]:
    """Names that a template reads. Constants are computed on the way."""
    from jinja2 import Environment, TemplateSyntaxError, meta

    try:
        return sorted(meta.find_undeclared_variables(Environment().parse(template)))
    except TemplateSyntaxError as error:
        raise SyntaxError(f"line {error.lineno} is not valid Jinja: {error.message}") from None


def match_patterns(patterns: list[str], names: list[str]) -> list[str]:
    """Names that one of the patterns matches as a whole."""
    compiled = [re.compile(pattern) for pattern in patterns]
    matches = {name for pattern in compiled for name in names if pattern.fullmatch(name)}
    return sorted(matches)


WAYS: dict[str, Callable[..., Any]] = {
    "chat": render_chat,
    "prompt": render_prompt,
    "placeholders": placeholders,
    "match": match_patterns,
}

if __name__ == "__main__":
    main()
