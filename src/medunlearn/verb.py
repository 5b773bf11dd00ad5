"""Declaration of one command of the command line; text alone, so that listing commands loads nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """One command. A function or class is named as ``module:name``.

    Attributes:
        first: common flags, shown first, separated by spaces.
        settings: classes whose fields are flags, separated by spaces; ``A|B`` for alternatives.
        call: its parameters are arguments and flags; by default ``medunlearn.api:WORDS``.
        show: the view of the result; its further parameters are flags too. By default the result's own ``view()``.
        run: called instead of ``call``, with the same parameters.
        plan: called instead under ``--dry-run``, or ``--plan`` where the first argument is a file.
        plan_flag: the name of that flag, where it is another.
        out: whether the command line asks for ``--out`` though the function does not.
        file: whether the first argument is a YAML file of the settings.
        checker: checks settings of methods (``--npo.beta``), without running anything.
    """

    words: str
    summary: str
    example: str
    first: str = ""
    settings: str = ""
    notes: str = ""
    call: str = ""
    show: str = ""
    run: str = ""
    plan: str = ""
    plan_flag: str = ""
    out: bool = False
    file: bool = False
    checker: str = ""

    @property
    def name(self) -> str:
        return self.words.replace(" ", "_")
