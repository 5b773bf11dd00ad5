"""Settings of `build lume`: the released files, or built anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from medunlearn.config.settings import MOST_INVENTED, Licence, Listed, Server, Settings, WriterFields


class LumeSettings(Settings):
    """A LUME benchmark from the released files."""

    builder: Literal["lume"] = "lume"
    released: Path = Field(description="folder with forget.jsonl and retain.jsonl")
    documents_per_task: int | None = Field(
        None, ge=2, description="seeded subset: documents per task, half from each side; none: all"
    )
    nonmembers: Path | None = Field(
        None, description="a file of the same form with documents that no model is to be trained on"
    )
    nonmember_documents: int | None = Field(
        None,
        ge=1,
        description="public biographies of the retain side, seeded, that no model is to be trained on; not with "
        "nonmembers; none: all are trained on, as the released models were",
    )
    skip_bad_rows: bool = Field(False, description="leave out malformed rows and count them, instead of refusing")
    seed: int = Field(0, description="seed of the subset")


class LumeNewSettings(WriterFields):
    """A LUME benchmark built anew: invented stories and biographies, and public ones from articles of your own."""

    builder: Literal["lume"] = "lume"
    new: Literal[True] = Field(
        True, description="build anew, as many documents as in the paper", json_schema_extra={"flag": "switch"}
    )
    synthetic: int | None = Field(
        None, ge=2, le=MOST_INVENTED, description="documents to invent per task; none: the paper's numbers"
    )
    stories: int = Field(393, ge=2, le=MOST_INVENTED, description="short stories; the paper's number")
    personal_biographies: int = Field(
        405, ge=2, le=MOST_INVENTED, description="biographies with identifiers; the paper's number"
    )
    public_biographies: int = Field(
        589, ge=2, le=MOST_INVENTED, description="biographies of an encyclopedia; the paper's number"
    )
    nonmembers: int = Field(
        100,
        ge=0,
        le=MOST_INVENTED,
        description="further public biographies that no model is to be trained on (fold holdout)",
    )
    articles: Path | None = Field(
        None, description="CSV, TSV, JSONL, JSON or Parquet of articles, cut to 100-200 words; none: invented lives"
    )
    data_use: Literal["open", "credentialed"] | None = Field(
        None,
        description="open: the articles are public; none: articles are credentialed and stay on this machine, what "
        "is invented is open",
    )
    licence: Licence = ""
    title: str = Field("title", description="column of an article's title")
    text: str = Field("text", description="column of an article's text")
    completion: Literal["sentence", "word"] = Field(
        "sentence", description="completions begin at a sentence, or at any word as in the released files"
    )
    alike: float = Field(
        0.5, gt=0, description="overlap of word trigrams from which a document is dropped as a near-duplicate"
    )
    email_domain: str = Field(
        "me.com", pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", description="domain of the invented e-mail addresses"
    )
    reviewed: Annotated[tuple[Path, ...], Listed] = Field(
        (), description="labelled review sheets (labels.csv); documents labelled No are dropped"
    )
    llm: Server = Field(
        default_factory=dict, description="the server that writes: llm.base_url, llm.model, ...; none: a grammar"
    )
    verifiers: Path | None = Field(
        None, description="YAML of models that try each question a language model wrote (docs/servers.md: judges:)"
    )
    seed: int = Field(0, description="seed of everything drawn: names, texts, sides, cuts, questions")

    @model_validator(mode="before")
    @classmethod
    def _alike(cls, values: Any) -> Any:
        """Set the document number of each task that has none to ``synthetic``."""
        if isinstance(values, dict) and isinstance(values.get("synthetic"), int):
            number = values["synthetic"]
            tasks = ("stories", "personal_biographies", "public_biographies")
            return {**dict.fromkeys(tasks, number), **values}
        return values
