"""Settings of probes: what is asked, and how; the same flags of every command that asks.

``--probes FILE`` gives the settings that another command recorded in ``probes.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, field_validator, model_validator

from medunlearn.config.clinical_notes import Prompts
from medunlearn.config.settings import Context, Listed, Numbers, Settings, Template, Words
from medunlearn.errors import InputError
from medunlearn.input_files import read_text

PROBES_FILE = "probes.json"
PAPER_PREFIXES = (50, 100, 200, 300, 500)
"""Source: Memorization in Large Language Models in Medicine, Section 3.1."""
PREFIX, PROMPT, PREFIX_IN_CHAT = "prefix", "prompt", "prefix_in_chat"
"""Ways of asking for a text."""
SamplesPerPrompt = Annotated[int, Field(ge=1, le=10_000)]
Folds = Annotated[
    tuple[Literal["train", "holdout", "rephrase", "utility", "choosing"], ...],
    Listed,
    Field(min_length=1, description="folds to ask"),
]


def read_probes(path: Path) -> dict[str, Any]:
    """The content of a ``probes.json``, of the file or of the folder of an evaluation or audit.

    Raises:
        InputError: there is none, or another file.
    """
    file = path / PROBES_FILE if path.is_dir() else path
    if not file.exists():
        raise InputError(
            f"there is no file {file}. Every evaluation and audit writes a {PROBES_FILE} into its folder: name that"
        )
    try:
        content = json.loads(read_text(file))
    except ValueError:
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("settings"), dict):
        raise InputError(f"{file} is not a probe set")
    return content


def is_same_set(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """True if two contents of ``probes.json`` are of the same probes; settings that one lacks do not count."""
    settings = [content["settings"] for content in (first, second)]
    names = set(settings[0]) & set(settings[1])
    alike = all(settings[0][name] == settings[1][name] for name in names)
    return alike and all(first.get(part) == second.get(part) for part in ("of", "material", "ids"))


class ProbeSettings(Settings):
    """Probes: what is asked, and how.

    Attributes:
        PROBES_OF: what the probes are made from: questions, or texts.
        probes: not part of a key, which the settings that it stands for are.
    """

    PROBES_OF: ClassVar[str] = ""
    probes: Path | None = Field(
        None,
        exclude=True,
        description=f"{PROBES_FILE} of an evaluation or audit, or its folder: ask the same again; stands for the "
        "settings of probes",
    )

    @classmethod
    def of_probes(cls) -> tuple[str, ...]:
        """Names of the settings that belong to the probe set."""
        owners = (base for base in cls.__mro__ if "PROBES_OF" in vars(base))
        names = {name for base in owners for name in getattr(base, "__annotations__", {})}
        return tuple(name for name in cls.model_fields if name in names - {"probes", "PROBES_OF"})

    @model_validator(mode="wrap")
    @classmethod
    def _from_file(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Settings of a probe set are taken from its file; others must not contradict it."""
        file = values.get("probes") if isinstance(values, Mapping) else None
        if file is None:
            return handler(values)
        try:
            content = read_probes(Path(file))
        except InputError as error:
            raise ValueError(f"probes: {str(error).rstrip('.')}") from None
        if content.get("of") != cls.PROBES_OF:
            raise ValueError(f"probes: {file} holds {content.get('of')}, and {cls.PROBES_OF} are asked here")
        given = {name: value for name, value in content["settings"].items() if name in cls.of_probes()}
        made, same = handler({**given, **values}), handler({**values, **given})
        if differs := [name for name in given if getattr(made, name) != getattr(same, name)]:
            raise ValueError(f"{', '.join(differs)}: {file} says otherwise. Leave {' and '.join(differs)} out")
        return made


class SplitProbes(ProbeSettings):
    """Questions about the two sides of a split."""

    PROBES_OF = "questions"
    split: str = Field(description="split of the benchmark, or an ad-hoc request level=node,node")
    seed: int = Field(0, description="seed of the subset, and of the bootstrap")


class QuestionProbes(SplitProbes):
    """Questions that are asked."""

    PROBES_OF = "questions"
    folds: Folds = ("train", "holdout")
    template: Template | None = Field(None, description="prompt template or file; left out: the model's own")
    context: Context | None = Field(None, description="context mode; left out: the model's own")
    limit: int | None = Field(None, ge=1, description="ask about this many subjects per side (seeded); none: all")
    subjects: Literal["all", "choosing", "reporting"] = Field(
        "all",
        description="ask about all subjects, or about one seeded half of each side's: `tune` chooses settings on "
        "one half and reports on the other",
    )
    max_new_tokens: int | None = Field(
        None, ge=1, description="longest response; none: the longest reference answer and a quarter"
    )


class FactProbes(QuestionProbes):
    """Questions that are asked, and facts that are ranked; older probe sets have no settings of facts."""

    PROBES_OF = "questions"
    values: Literal["all", "choosing", "reporting"] = Field(
        "all",
        description="rank facts of all values, or of one seeded half of each subject's values: `forget` chooses "
        "settings on one half and verifies on the other",
    )
    alternatives: int = Field(59, ge=9, le=999, description="alternatives of a fact at most, for ranks of facts")
    ranked: int | None = Field(
        20, ge=1, description="rank the facts of this many subjects per side (seeded); null: of all"
    )
    rank_retained: bool = Field(
        True, description="rank facts of retained subjects too; false: of forgotten and of unseen ones alone"
    )
    facts: int | None = Field(
        2,
        ge=1,
        description="rank about this many facts per subject and fold, and per record; null: all",
    )
    rank_in: Literal["auto", "questions", "records", "both"] = Field(
        "auto",
        description="rank facts of answers, or in place in records; auto: those of subjects without question",
    )
    versions: int = Field(
        19, ge=19, le=99, description="number of versions to rank a whole note among, for note_rank"
    )


class TextProbes(ProbeSettings):
    """Texts that are asked for."""

    PROBES_OF = "texts"
    prefixes: Annotated[tuple[int, ...], Numbers] = Field(
        PAPER_PREFIXES,
        min_length=1,
        description="prefix lengths in tokens; each gives a separate probe",
    )
    prompt: Prompts = Field(
        (),
        description='prompt whose answer is the text, columns in braces: "Write the note of {name}."; may be '
        "given several times, for attackers who know more or less",
        json_schema_extra={"flag": "repeated"},
    )
    template: Literal["plain", "chat", "clinical"] = Field(
        "plain",
        description="template of prompts: chat, the tokenizer's (or server's) own; beginnings are then also "
        "given in a "
        "chat",
    )
    ways: Words = Field(
        (),
        description="ways of asking: prefix (the beginning of a text), prompt, prefix_in_chat; none: all that "
        "--prompt and --template allow",
    )
    max_new_tokens: int = Field(500, ge=1, description="tokens to generate and compare at most")
    decodings: Words = Field(
        ("greedy",),
        min_length=1,
        description="greedy, temperature=0.7, top_k=10, top_p=0.9, temperature=0.7+top_k=10, with commas",
    )
    samples_per_prompt: SamplesPerPrompt = Field(
        1, description="continuations per probe under each sampling decoding"
    )
    limit: int = Field(1000, ge=0, description="most documents per corpus, drawn by seed; 0: all")
    shortest_suffix: int = Field(
        30, ge=1, description="least number of tokens after a prefix; shorter texts have no such probe"
    )
    seed: int = Field(0, description="seed of the sample, of sampling decodings, and of the bootstrap")

    @field_validator("prefixes")
    @classmethod
    def _ascending(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if min(value) < 1:
            raise ValueError("a prefix has at least one token")
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _ways_can_be_asked(self) -> Self:
        possible = {PREFIX: True, PROMPT: bool(self.prompt), PREFIX_IN_CHAT: self.template == "chat"}
        needs = {PROMPT: "a --prompt", PREFIX_IN_CHAT: "--template chat"}
        for way in self.ways:
            if way not in possible:
                raise ValueError(f"ways: {way!r} is none of {', '.join(possible)}")
            if not possible[way]:
                raise ValueError(f"ways: {way} needs {needs[way]}")
        if self.prompt and self.ways and PROMPT not in self.ways:
            raise ValueError("ways: a --prompt is given but not used. Add prompt to the ways, or leave it out")
        return self

    @property
    def asked_ways(self) -> tuple[str, ...]:
        """The selected ways of asking, in fixed order: prefix, prompt, prefix_in_chat."""
        possible = ((PREFIX, True), (PROMPT, bool(self.prompt)), (PREFIX_IN_CHAT, self.template == "chat"))
        return tuple(way for way, can in possible if can and (way in self.ways or not self.ways))
