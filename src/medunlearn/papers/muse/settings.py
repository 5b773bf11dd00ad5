"""Settings of `build muse`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medunlearn.config.settings import Settings


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
