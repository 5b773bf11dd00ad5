"""Settings of `build`: one class per builder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from medunlearn.config.settings import (
    MOST_INVENTED,
    Licence,
    Listed,
    OwnPrompt,
    Percents,
    Server,
    Settings,
    Words,
    WriterFields,
    once,
)


class SplitFields(Settings):
    """Splits of all AMNESIA benchmarks."""

    diseases: Annotated[Words, AfterValidator(once)] = Field(
        (), description="diseases with separate splits, separated by commas; none: the three largest"
    )
    percents: Percents = Field((5, 10, 15, 20, 25), description="shares of the patients that splits forget")


class AmnesiaSettings(SplitFields):
    """An AMNESIA benchmark from an invented hospital."""

    builder: Literal["amnesia"] = "amnesia"
    synthetic: int = Field(ge=2, le=MOST_INVENTED, description="patients to invent")
    institutions: int = Field(4, ge=1, le=MOST_INVENTED, description="institutions that they are spread over")
    studies: int = Field(
        0, ge=0, le=1000, description="dated chest studies per patient, each with four report sections"
    )
    note_length: Literal["short", "medium", "long"] = Field("short", description="length of a note")
    nonmember_patients: int = Field(
        0,
        ge=0,
        le=MOST_INVENTED,
        description="further invented patients that no model is trained on and no question is about",
    )
    seed: int = Field(0, description="seed of hospital and splits")


class AmnesiaNotesSettings(WriterFields, SplitFields):
    """An AMNESIA benchmark from your own notes, labelled and asked about by a language model."""

    builder: Literal["amnesia"] = "amnesia"
    notes: Path = Field(
        description="CSV, TSV, JSONL, JSON or Parquet, one note per row, or a folder of such files, or "
        "hub:org/name[/FILE][@REVISION]; PMC-Patients is recognised"
    )
    llm: Server = Field(description="the server: llm.base_url, llm.model, llm.concurrency, ... (docs/servers.md)")
    id: str | None = Field(None, description="column of the note's id; none: id, or the row's number")
    text: str | None = Field(None, description="column of the note; none: text")
    title: str | None = Field(None, description="column of the title that names the disease; none: title")
    subject: str | None = Field(
        None, description="column of the patient; none: subject, or each note is its own patient"
    )
    disease: str | None = Field(None, description="column of a disease of your own; none: disease, or the model's")
    identifiers: str | None = Field(
        None, description="column of known identifiers; none: identifiers, or none known"
    )
    prompts: dict[Literal["label", "questions"], OwnPrompt] = Field(
        default_factory=dict,
        description="files with prompts of your own: prompts.label ({{ title }}), prompts.questions ({{ note }})",
    )
    limit: Annotated[int, Field(ge=2)] | Literal["all"] | None = Field(
        None, description="seeded sample of this many notes, or all; none: 8820 of PMC-Patients, all of other files"
    )
    other: Literal["drop", "keep"] = Field("drop", description="patients whose title fits none of the 11 diseases")
    data_use: Literal["open", "credentialed"] | None = Field(
        None, description="credentialed: notes stay on this machine; none: open for PMC-Patients alone"
    )
    licence: Licence = ""
    skip_bad_rows: bool = Field(False, description="leave out rows that cannot be read and list them")
    temperature: float | None = Field(0.0, ge=0, description="sampling temperature; null sends none")
    seed: int = Field(0, description="seed of sample, holdout and splits; changing it sends no request again")

    @field_validator("limit", mode="before")
    @classmethod
    def _number_or_all(cls, value: Any) -> Any:
        if isinstance(value, str) and value != "all" and not value.isdecimal():
            raise ValueError("give a number, or all")
        return int(value) if isinstance(value, str) and value != "all" else value


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


class TofuSettings(Settings):
    """A TOFU benchmark from its published files."""

    builder: Literal["tofu"] = "tofu"
    released: str = Field(description="folder of the released files, or hub: locuslab/TOFU")
    revision: str | None = Field(None, description="of the hub's data set; none: its newest")
    questions_an_author: int = Field(20, ge=1, description="rows of the file `full` that are about one author")
    holdout: str | None = Field(
        None,
        description="file of authors that no model is trained on, the non-members of membership attacks "
        "(OpenUnlearning's holdout10); none: no non-members",
    )
    seed: int = Field(0, description="kept in the manifest; nothing is drawn")


class MuseSettings(Settings):
    """A MUSE benchmark from its published files."""

    builder: Literal["muse"] = "muse"
    released: str = Field(description="folder of the released files, or hub: muse-bench/MUSE-News or -Books")
    corpus: Literal["news", "books"] = Field("news", description="which of the two corpora it is")
    retain: Literal["retain1", "retain2", "both"] | None = Field(
        None,
        description="documents to retain: retain2 (the paper evaluates on it), retain1 (its methods train on it), "
        "both; none: retain2, or retain1 if that is missing",
    )
    membership: Literal["raw", "privleak"] = Field(
        "raw",
        description="texts of membership attacks: the documents of raw/, or the authors' pieces in privleak/, of "
        "which PrivLeak's published numbers are",
    )
    revision: str | None = Field(None, description="of the hub's data set; none: its newest")
    seed: int = Field(0, description="kept in the manifest; nothing is drawn")
