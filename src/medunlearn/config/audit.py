"""Settings of `audit`, its optional stages, and its reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from medunlearn.config.clinical_notes import NoteColumnFields
from medunlearn.config.probe_settings import PAPER_PREFIXES as PAPER_PREFIXES
from medunlearn.config.probe_settings import PREFIX as PREFIX
from medunlearn.config.probe_settings import PREFIX_IN_CHAT as PREFIX_IN_CHAT
from medunlearn.config.probe_settings import PROMPT as PROMPT
from medunlearn.config.probe_settings import TextProbes
from medunlearn.config.settings import MOST_REPLICATES, AllowBroken, Backend, Settings, Words


def _switch(value: Any) -> Any:
    return {} if value is True else None if value is False else value


def _file(value: Any) -> Any:
    return {"file": value} if isinstance(value, str) else value


class AuditParts(Settings):
    """Optional audit stages; each can be added to a finished audit."""

    encoder: str | None = Field(None, description="encoder of BERTScore, a folder or hub id; none: no BERTScore")
    bart: str | None = Field(
        None, description="sequence-to-sequence model of BARTScore, a folder or hub id; none: no BARTScore"
    )
    sentence_encoder: str | None = Field(
        None, description="sentence encoder of cosine similarity (cs): folder, hub id or minilm; none: no cs"
    )
    nli: str | None = Field(None, description="entailment model of es, a folder or hub id; none: no es")
    semantic_variant: Literal["own", "released_code"] = Field(
        "own",
        description="texts that BERTScore and BARTScore compare: the first 100 tokens of the audited model, "
        "or as the "
        "paper's released code the first 100 of BART's tokenizer, scores rounded to 4 digits (needs --bart)",
    )
    identifiers: Annotated[dict[str, Any] | None, BeforeValidator(_switch)] = Field(
        None, description="find patients' identifiers in responses", json_schema_extra={"flag": "switch"}
    )
    kinds: Annotated[dict[str, Any] | None, BeforeValidator(_switch)] = Field(
        None,
        description="sort shared runs into beneficial, uninformative and harmful",
        json_schema_extra={"flag": "switch"},
    )
    options: Annotated[dict[str, Any] | None, BeforeValidator(_file)] = Field(
        None, description="file of multiple-choice questions; one option of each is removed and asked for"
    )
    infer: Words = Field(
        (),
        description="columns with a sensitive attribute (a diagnosis): how well responses tell whose it is, by "
        "what the attacker knows",
    )
    unseen: Words = Field(
        (),
        description="names of corpora that the model never saw, besides benchmarks' holdouts and texts of 0 copies",
    )


class AuditSettings(TextProbes, NoteColumnFields):
    """Measure how much a model repeats verbatim of texts that it may have been trained on."""

    measures: Words = Field(
        (),
        description="names from `medunlearn list measures`, or module:ATTRIBUTE; none: the defaults of audits",
    )
    data_use: Literal["open", "credentialed"] | None = Field(
        None, description="data use of the texts; none: the benchmark's, else credentialed"
    )
    tokenizer: str | None = Field(
        None,
        description="folder with the tokenizer.json that counts the text of a server or of stored responses; none: "
        "words and punctuation marks",
    )
    batch_size: int = Field(32, ge=1, description="probes decoded together")
    weights: Literal["fp32", "bf16"] = Field("fp32", description="type of the weights in memory")
    backend: Backend = "own"
    allow_missing: bool = Field(False, description="finish though a server left probes without a response")
    allow_broken: AllowBroken = False
    replicates: int = Field(1000, ge=2, le=MOST_REPLICATES, description="bootstrap replicates over subjects")


class IdentifierSettings(Settings):
    """Find identifiers and other sensitive content in a model's responses."""

    detectors: Words = Field(
        ("auto",),
        description="find identifiers that no record declares: auto (patterns, and spacy where a pipeline is "
        "installed), patterns, spacy, spacy:NAME, presidio, presidio:MODEL, tagger:FOLDER, gliner:FOLDER, "
        "module:Class; several are united; [] for none",
    )
    fuzzy: Literal["own", "all", "none"] = Field(
        "own",
        description="fuzzy matching of known identifiers: those of the response's own subject, of all "
        "subjects (some "
        "match by chance), or none",
    )
    labelled: str | None = Field(
        None,
        description="notes of yours with their identifiers labelled (text, spans): the first screen shows the "
        "detectors' recall on them; none: recall on invented notes of ours",
    )
    sensitive: bool = Field(True, description="look for sensitive content beyond identifiers (Table 10) as well")
    judged: int = Field(
        200,
        ge=1,
        description="most responses for the judge, drawn by seed; the paper's reviewers read 200",
    )
    least_rouge: float = Field(
        0.2,
        ge=0,
        le=1,
        description="least ROUGE-L with the record of responses for the judge",
    )
    tokenizer: str | None = Field(
        None,
        description="folder with the tokenizer.json for token positions in a table's responses; none: an "
        "audit's own",
    )
    replicates: int = Field(1000, ge=2, le=MOST_REPLICATES, description="bootstrap replicates over subjects")
    seed: int = Field(0, description="seed of the bootstrap and of samples")
    processes: int | None = Field(
        None, ge=1, description="processes that search; none: one a core where there are responses enough"
    )


class AuditRelations(Settings):
    """Relations between audited models, by their labels. Nothing here is guessed from a name."""

    baselines: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="a model: the models that it is compared with (such as its backbone)"
    )
    larger: tuple[tuple[str, str], ...] = Field(
        (), description="pairs of a larger and a smaller model with the same training"
    )
    persistence: tuple[tuple[str, str], ...] = Field(
        (), description="pairs of a model before and after further fine-tuning"
    )
    epochs: Mapping[str, Mapping[str, int]] = Field(
        default_factory=dict,
        description="a training run: each audited model of it and after which epoch it was saved",
    )
    epoch_table: Path | None = Field(
        None, description="Parquet with epoch, measure, value, low, high: memorization, validation loss, accuracy"
    )
    diagnosis: Path | None = Field(
        None, description="result of `audit diagnosis`: top-k accuracy of models before and after fine-tuning"
    )
    trained: Mapping[str, Words] = Field(
        default_factory=dict,
        description="a model: the corpora that it was trained on, where not on all; findings about training leave "
        "the others out, and baselines that were trained on the corpus, too",
    )
    clinical: Words = Field((), description="corpora of patients' records")
    datasets: Words = Field((), description="corpora of questions with answers")

    def labels(self) -> set[str]:
        """Every model named in the relations."""
        labels = {label for pair in (*self.larger, *self.persistence) for label in pair}
        labels |= {label for model, others in self.baselines.items() for label in (model, *others)}
        return labels | {*self.trained} | {label for series in self.epochs.values() for label in series}


class KindSettings(Settings):
    """Sort memorized text into kinds."""

    at_least: int = Field(
        50, ge=1, description="shortest span that is sorted, in tokens; the paper sorted runs of 50"
    )
    clinical: Words = Field((), description="corpora of patients' records")
    datasets: Words = Field((), description="corpora of questions with answers")
    boilerplate: int = Field(
        5, ge=2, description="so many records of a corpus that hold a span make it a set phrase"
    )
    least: int = Field(2, ge=1, description="least weight of distinct terms that makes a kind")
