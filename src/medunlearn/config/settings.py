"""Base class of all settings, and shared field types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler

from medunlearn.config.prompt_files import PromptFile, read_prompt_file

Context = Literal["note", "closed_book"]
TemplateName = Literal["plain", "chat", "clinical"]
What = Literal["records", "questions", "both"]
Unlearned = Literal["records", "questions", "both", "direct"]
Images = Literal["use", "ignore"]
LongNotes = Literal["refuse", "cut"]
Licence = Annotated[str, Field(description="of your own files, for the benchmark's card and manifest")]
MOST_INVENTED = 100_000
"""Patients, documents or parts of each that are invented: a benchmark is made in memory."""
MOST_REPLICATES = 100_000
"""Bootstrap replicates: more change no digit that is shown, and take memory."""
Percent = Annotated[int, Field(ge=1, le=99)]


def numbers(value: Any) -> Any:
    """Like :func:`flat_list`, for numbers: each part between commas is read as a number."""
    values = flat_list(value)
    if not isinstance(values, list):
        return values
    return [_number(part) if isinstance(part, str) else part for part in values]


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def listed(value: Any) -> Any:
    """One value, or several with commas, as a list."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


def flat_list(value: Any) -> Any:
    """Flags given several times, each perhaps with commas."""
    if isinstance(value, list | tuple):
        parts = [listed(part) for part in value]
        return [inner for part in parts for inner in (part if isinstance(part, list) else [part])]
    return listed(value)


def once(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(value)) < len(value):
        raise ValueError("name each of them once")
    return value


def check_template(value: Any) -> Any:
    """A template's name, or a file with ``{{ question }}`` and, for the record's text, ``{{ note }}``."""
    if value is None or value in get_args(TemplateName):
        return value
    if isinstance(value, str) and "." not in Path(value).name and not Path(value).exists():
        raise ValueError(f"is not one of {', '.join(get_args(TemplateName))}, and no file (my.jinja)")
    return read_prompt_file(value).check(["question"], ["note"])


def _address(value: Any) -> Any:
    return {"base_url": value} if isinstance(value, str) else value


Template = Annotated[TemplateName | PromptFile, BeforeValidator(check_template)]
"""A prompt template by name, or a user's file."""
OwnPrompt = Annotated[PromptFile, BeforeValidator(read_prompt_file)]
"""A user's file that replaces a prompt of ours."""
Listed = BeforeValidator(flat_list)
"""Takes one value, several with commas, or a list."""
Numbers = BeforeValidator(numbers)
"""The same of numbers."""
Words = Annotated[tuple[str, ...], Listed]
Backend = Annotated[
    Literal["own", "vllm"],
    Field(description="what computes responses and likelihoods; vllm: pip install 'medunlearn[vllm]'"),
]
AllowBroken = Annotated[
    bool,
    Field(
        description="score a model though its weights are not finite or its answers all empty or the same; every "
        "page then warns, and no verdict is read from it"
    ),
]
Percents = Annotated[tuple[Percent, ...], Numbers, AfterValidator(once), Field(min_length=1)]
Server = Annotated[dict[str, Any], BeforeValidator(_address)]
"""Settings of a language-model server, or its address."""


def _tell_kinds_apart(schema: Any) -> None:
    """Make pydantic refuse true and "3" as numbers, and 1 as a switch, everywhere in a schema."""
    if isinstance(schema, list | tuple):
        for part in schema:
            _tell_kinds_apart(part)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if kind in ("float", "bool"):
            schema["strict"] = True
        elif kind == "int":
            # Not strict: 1e4 is a float to YAML, and a whole number to a user.
            inner = dict(schema)
            schema.clear()
            schema |= {
                "type": "function-before",
                "function": {"type": "no-info", "function": _no_text},
                "schema": inner,
            }
        else:
            for part in schema.values():
                _tell_kinds_apart(part)


def _no_text(value: Any) -> Any:
    if isinstance(value, bool | str):
        quoted = isinstance(value, str) and value.strip("+-").isdecimal()
        raise ValueError("must be a whole number" + (", without quotes" if quoted else ""))
    return value


class Settings(BaseModel):
    """Base of all settings: unknown keys are refused, and checked values never change.

    A number is a number and a switch a switch: true is not 1, and "3" is not 3.

    Attributes:
        SECTIONS: settings whose keys a section holds, where these are known: ``--build.patient-column``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)
    SECTIONS: ClassVar[Mapping[str, type[Settings]]] = {}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        schema = handler(source)
        _tell_kinds_apart(schema)
        return schema


class WriterFields(Settings):
    """Settings of a language model that writes a part of a benchmark."""

    allow_remote_llm: bool = Field(False, description="permit a server off this machine for data that should stay")
    leave_out_failed: bool = Field(False, description="build without the items for which server or network failed")
    again: bool = Field(False, description="send requests again that a model refused or answered unusably")
    temperature: float | Literal["prompt"] | None = Field(
        "prompt", description="sampling temperature; prompt: as each prompt says; null sends none"
    )
    answer_tokens: int | None = Field(None, ge=1, description="longest answer; none: as each prompt says")
    store: Path | None = Field(None, description="folder of the model's responses; none: llm/ in the benchmark's")
    llm_seed: int | None = Field(0, description="seed sent to the model; null sends none")
