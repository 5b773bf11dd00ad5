"""Settings of `audit identifiers`: what an audit looks for of patients."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medunlearn.config.settings import MOST_REPLICATES, Settings, Words


class IdentifierSettings(Settings):
    """Find identifiers and other sensitive content in what a model said."""

    detectors: Words = Field(
        ("patterns",),
        description="find identifiers that no record declares: patterns, presidio, presidio:MODEL, tagger:FOLDER, "
        "gliner:FOLDER, module:Class; several are united; [] for none",
    )
    fuzzy: Literal["own", "all", "none"] = Field(
        "own",
        description="known identifiers with a slip: of the response's own subject, of all subjects (some are near "
        "by chance), or none",
    )
    labelled: str | None = Field(
        None,
        description="notes of yours with their identifiers labelled (text, spans): the first screen says what "
        "share of them the detectors find; none: what share of our own notes'",
    )
    sensitive: bool = Field(True, description="look for sensitive content beyond identifiers (Table 10) as well")
    judged: int = Field(
        200,
        ge=1,
        description="responses that a judge is asked about at most, drawn by seed; the paper's people read 200",
    )
    least_rouge: float = Field(
        0.2,
        ge=0,
        le=1,
        description="ROUGE-L with the record above this, of the responses that a judge is asked about",
    )
    tokenizer: str | None = Field(
        None,
        description="folder with the tokenizer.json that a table's responses are counted in, to say which tokens a "
        "finding is; none: an audit's own",
    )
    replicates: int = Field(1000, ge=2, le=MOST_REPLICATES, description="bootstrap replicates over subjects")
    seed: int = Field(0, description="seed of the bootstrap and of samples")
