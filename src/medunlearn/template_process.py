"""Render templates and try patterns of strangers in a process of their own, with limits on time, memory and length.

A template is a program: a chat template of a downloaded model may loop for years or write a text of terabytes, and
a pattern may backtrack as long. Neither can be stopped inside this process.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from medunlearn import template_worker
from medunlearn.errors import InputError, MedunlearnError

SECONDS = 5.0
"""CPU seconds that one rendering may take; it usually takes less than a millisecond."""
LONGEST = 1 << 24
"""Characters of a rendered text."""
PATIENCE = 60.0
"""Seconds to wait for an answer on a machine that is busy with other work."""
_PLAIN = re.compile(r"(?:[^{]|\{(?![{%#])|\{\{\s*[A-Za-z_]\w*\s*\}\})*")


class _Worker:
    """The process, started at the first request and again after one that ended it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._chat = False

    def ask(self, what: str, way: str, arguments: Mapping[str, Any]) -> Any:
        """Result of a request.

        Args:
            what: name of the template in errors: ``The chat template of m``.

        Raises:
            InputError: it took too long, too much memory, or made too long a text.
            TemplateError: the template is wrong.
        """
        request = {"way": way, "arguments": arguments, "seconds": SECONDS, "length": LONGEST}
        with self._lock:
            try:
                answer = self._exchange(json.dumps(request, default=str).encode() + b"\n", chat=way == "chat")
            except BaseException:  # also Ctrl-C: an answer that is still to come is no other request's
                self.stop()
                raise
            if answer is None:
                raise InputError(_limit_words(what, self.stop()))
        if limit := answer.get("limit"):
            raise InputError(_limit_words(what, limit))
        if error := answer.get("error"):
            raise TemplateError(error)
        return answer["result"]

    def _exchange(self, line: bytes, *, chat: bool) -> dict[str, Any] | None:
        """Answer to a request; None if the process ended or did not answer."""
        process = self._running(chat)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except BrokenPipeError:
            return None
        parts, until, pipe = list[bytes](), time.monotonic() + PATIENCE, process.stdout.fileno()
        while not parts or not parts[-1].endswith(b"\n"):
            if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            if not (part := os.read(pipe, 1 << 20)):
                return None
            parts.append(part)
        answer: dict[str, Any] = json.loads(b"".join(parts))
        return answer

    def _running(self, chat: bool) -> subprocess.Popen[bytes]:
        if self._process is not None and (self._process.poll() is not None or (chat and not self._chat)):
            self.stop()
        if self._process is None:
            command = [sys.executable, "-I", str(Path(template_worker.__file__))]
            try:
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            except OSError as error:
                raise MedunlearnError(f"The process that renders templates cannot be started: {error}.") from error
            self._chat = chat
            assert self._process.stdin is not None
            path = [os.path.abspath(folder) for folder in sys.path]
            self._process.stdin.write(json.dumps({"path": path, "chat": chat}).encode() + b"\n")
        return self._process

    def stop(self) -> str:
        """End the process; returns the limit that ended it before: ``time``, or another ``end``."""
        process, self._process = self._process, None
        if process is None:
            return "end"
        try:
            code = process.wait(0 if process.poll() is None else 1)
        except subprocess.TimeoutExpired:
            code = -signal.SIGVTALRM
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError, AttributeError):
                stream.close()  # type: ignore[union-attr]
        return "time" if code == -signal.SIGVTALRM else "end"

    def forget(self) -> None:
        """Drop the process in a fork of this one: it answers to the parent."""
        self._lock, self._process = threading.Lock(), None


def _limit_words(what: str, limit: str) -> str:
    reasons = {
        "time": f"takes more than {SECONDS:g} seconds to process",
        "memory": f"needs more than {template_worker.MEMORY >> 20} MiB of memory",
        "length": f"makes a text of more than {LONGEST:,} characters",
    }
    return f"{what} {reasons.get(limit, 'ended the process that rendered it')}: correct it, or give another."


_worker = _Worker()
atexit.register(_worker.stop)
os.register_at_fork(after_in_child=_worker.forget)


def render_prompt(what: str, template: str, options: Sequence[str], fields: Mapping[str, Any]) -> str:
    """A template of a file or a tokenizer, with fields filled in.

    Args:
        what: name of the template in errors.
        options: jinja2's ``trim_blocks``, ``lstrip_blocks``, ``keep_trailing_newline``; ``strict``: a missing field
            is an error.

    Raises:
        InputError: it passes a limit.
        TemplateError: it is wrong.
    """
    if _PLAIN.fullmatch(template) and all(isinstance(value, str) for value in fields.values()):
        return template_worker.render_prompt(template, [*options], {**fields})  # placeholders alone
    text: str = _worker.ask(what, "prompt", {"template": template, "options": [*options], "fields": {**fields}})
    return text


def placeholders(what: str, template: str) -> frozenset[str]:
    """Names that a template reads.

    Raises:
        InputError: it passes a limit.
        TemplateError: it is wrong; says in which line.
    """
    if _PLAIN.fullmatch(template):
        return frozenset(template_worker.placeholders(template))
    return frozenset(_worker.ask(what, "placeholders", {"template": template}))


def match_patterns(what: str, patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names that one of the patterns matches as a whole.

    Raises:
        InputError: matching passes a limit.
        TemplateError: a pattern is wrong.
    """
    matches: list[str] = _worker.ask(what, "match", {"patterns": [*patterns], "names": [*names]})
    return matches


@contextmanager
def chat_templates_apart(what: str, today: str | None = None) -> Iterator[None]:
    """Context in which transformers renders chat templates in the process of their own.

    Args:
        what: name of the template in errors.
        today: ISO date that the templates see; None: that of the clock.

    Raises:
        InputError: a template passes a limit.
        TemplateError: a template is wrong.
    """

    def render(conversations: Any, **arguments: Any) -> Any:
        arguments["conversations"] = conversations
        return _worker.ask(what, "chat", {"today": today, "arguments": arguments})

    names = ("transformers.tokenization_utils_base", "transformers.processing_utils")
    modules: list[Any] = [sys.modules[name] for name in names if name in sys.modules]
    before = [module.render_jinja_template for module in modules]
    for module in modules:
        module.render_jinja_template = render
    try:
        yield
    finally:
        for module, function in zip(modules, before, strict=True):
            module.render_jinja_template = function
