"""The evaluated models of a sweep over levels, and the labels of their scores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pandas as pd

from medunlearn.attacks.attacked import Attacked
from medunlearn.papers.medforget.measures import GEN_SCORE, IDENTITY, VARIANTS, WITH_NAMES
from medunlearn.papers.medforget.partitions import ITEM, LEVELS, VARIANT
from medunlearn.papers.medforget.question_sets import COMMON, WHOLE
from medunlearn.papers.medforget.scopes import ForgetSets, forgotten_sections
from medunlearn.papers.sweeps.models import LABELS, UNLEARNED, SweepModels, Who
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.scores import COLUMNS

FLAT_MODEL = "flat"
"""The role of an unlearned model of a flat split, asked about a level's split that forgets as much."""


def flat(method: str) -> Who:
    return (FLAT_MODEL, method)


class LevelModels(SweepModels):
    """All models by split and role, with further label columns of their score table:

    - ``level``: level whose name an identity question asks for; empty for other kinds.
    - ``variant``: variation of a trained question; empty for the questions themselves.
    - ``part``: ``whole``; questions of the forget set are listed again for each part that they lie in.
    - ``given``: names in front of the question, under the reconstruction attack; empty without it.
    """

    labels = (*LABELS, "level", "variant", "part", "given")

    def who(self, model: Evaluated) -> Who | None:
        split, made_for = str(model.record.info.split), str(model.run.info.made_for)
        if model.run.role == UNLEARNED and made_for != split:
            amounts = {len(forgotten_sections(self.benchmark, name)) for name in (made_for, split)}
            stands_for = self.benchmark.split(made_for).level == ITEM and len(amounts) == 1
            return flat(model.run.label) if stands_for else None
        return super().who(model)

    def scores(self, model: Evaluated, split: str) -> pd.DataFrame:
        whole = self.labelled(model.table)
        forget = whole[(whole["side"] == "forget") & (whole["variant"] == "")]
        parts = self.forget_sets.parts(split).items()
        return pd.concat(
            [
                *(whole, *_with_names(whole)),
                *(forget[forget["item"].isin(questions)].assign(part=part) for part, questions in parts),
                *self._attacked(model, split, forget.loc[forget["fold"] == "train", "item"]),
            ]
        )

    def labelled(self, scores: pd.DataFrame) -> pd.DataFrame:
        """Scores with the labels of their questions."""
        rows = scores[[*COLUMNS, "side", "fold", "kind"]]
        items = rows["item"].tolist()
        return rows.assign(
            level=[self._level.get(item, "") for item in items],
            variant=[self._variant.get(item, "") for item in items],
            part=WHOLE,
            given="",
        )

    def _attacked(self, model: Evaluated, split: str, trained: pd.Series) -> Iterator[pd.DataFrame]:
        """Scores of trained questions with identifiers before them; of a level, on the common sections."""
        attacked = Attacked.find(model.run, split, "reconstruction")
        if attacked is not None:
            part, items = WHOLE, set(trained)
            if self.forget_sets.common and self.forget_sets.scopes[split].level in LEVELS:
                part, items = COMMON, items & self.forget_sets.common_questions
            scores = attacked.scores
            scores = scores[(scores["side"] == "forget") & (scores["fold"] == "train") & scores["item"].isin(items)]
            yield self.labelled(scores).assign(part=part, given=scores["given"].astype(str))

    @cached_property
    def forget_sets(self) -> ForgetSets:
        return ForgetSets(self.benchmark, self.splits)

    @cached_property
    def _level(self) -> dict[str, str]:
        """Identity question -> the level whose name it asks for."""
        return {q.question_id: q.level for q in self.benchmark.questions if q.kind == IDENTITY}

    @cached_property
    def _variant(self) -> dict[str, str]:
        """Question that varies a trained one -> how."""
        variants = {r.record_id: r.groups[VARIANT] for r in self.benchmark.records if VARIANT in r.groups}
        return {q.question_id: variants[q.record_id] for q in self.benchmark.questions if q.record_id in variants}


def _with_names(scores: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Merge generation and identity questions into one kind, for measures that scored both."""
    names = scores[scores["kind"] == IDENTITY]
    for measure in dict.fromkeys(measure.measure for measure in VARIANTS if measure.kind == WITH_NAMES):
        of_names = names[names["measure"] == measure]
        if of_names["value"].notna().any():
            texts = scores[(scores["kind"] == GEN_SCORE.kind) & (scores["measure"] == measure)]
            yield pd.concat([texts, of_names]).assign(kind=WITH_NAMES, level="")
