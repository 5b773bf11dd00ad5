"""Settings of `build tofu`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medunlearn.config.settings import Settings


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
