"""Was this patient unlearned? A classifier between forgotten and other patients. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from medunlearn.attacks.recovery.recovery_interface import VariantScores
from medunlearn.attacks.whitebox.whitebox_attack import WhiteBoxAttack, row
from medunlearn.data.records import RECORD, Record
from medunlearn.data.splits import shuffled

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel

FEWEST = 4
"""Patients of either kind."""


@dataclass(frozen=True)
class ForgottenPatients(WhiteBoxAttack):
    """Tell forgotten patients from others by the losses and hidden states of their documents.

    A ridge classifier on loss features and mean hidden states
    (:mod:`medunlearn.attacks.whitebox.patient_features`), cross-fitted: each patient is scored by a classifier that
    saw neither him nor his documents. ``told_apart`` of a document is the share of the other patients' documents
    that score lower; its mean is the area under the ROC curve. Against patients whom no model saw, 0.5 is the goal,
    and the retrained model reaches it by construction; against retained ones only the difference from the retrained
    model counts, for it, too, tells those it learned from those it did not. Intervals are over the forgotten
    patients.

    Source: the cross-fitted classifier as in two-sample tests (Lopez-Paz & Oquab 2017, arXiv 1610.06545).
    """

    name: ClassVar[str] = "forgotten_patients"
    title: ClassVar[str] = "Was this one unlearned?"
    source: ClassVar[str] = "classifier two-sample test, Lopez-Paz & Oquab 2017 (arXiv 1610.06545)"
    question: ClassVar[str] = "whether the model shows which patients were unlearned"
    before: ClassVar[str] = "classifier"
    headline: ClassVar[tuple[str, ...]] = ("told_apart",)
    variant_words: ClassVar[str] = "beside"
    alone: ClassVar[str] = (
        "0.5 is chance, the goal beside unseen patients; beside retained ones no model is at chance"
    )
    about: ClassVar[tuple[str, ...]] = (
        "A classifier reads losses and hidden states of patients' documents and tells the forgotten ones from "
        "others: from patients whom no model saw, and from retained ones.",
        "Whoever is told apart from patients never seen was visibly deleted, even if nothing of him comes out.",
    )
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "told_apart": (
            "Told apart",
            "0-1, area under the ROC curve, 0.5 = chance; higher = shows who was unlearned",
        ),
    }

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        from medunlearn.attacks.membership.membership_run import check_was_trained_on_records

        check_was_trained_on_records(model.run)
        benchmark, split = model.benchmark, model.benchmark.split(model.settings.split)
        forgotten = self._drawn(model, [r for r in benchmark.records_of(split, "forget") if r.fold == "train"])
        others = {
            "unseen": [record for record in benchmark.records if record.fold == "holdout"],
            "retained": [record for record in benchmark.records_of(split, "retain") if record.fold == "train"],
        }
        for name, records in others.items():
            drawn, label = self._drawn(model, records), f"{self.name}.{name}"
            few = min(len({model.benchmark.subject(r.record_id) for r in part}) for part in (forgotten, drawn))
            if few < FEWEST:
                yield VariantScores(
                    label, None, f"a classifier takes {FEWEST} {name} and {FEWEST} forgotten patients"
                )
            else:
                yield VariantScores(label, self._scores(model, label, forgotten, drawn))

    def _drawn(self, model: AttackedModel, records: Sequence[Record]) -> list[Record]:
        """Documents of as many patients as are asked about (seeded)."""
        subject = model.benchmark.subject
        names = shuffled({subject(r.record_id) for r in records}, "forgotten patients", model.settings.seed)
        chosen = {*names[: self.subjects]}
        return [record for record in records if subject(record.record_id) in chosen]

    def _scores(
        self, model: AttackedModel, label: str, forgotten: Sequence[Record], others: Sequence[Record]
    ) -> pd.DataFrame:
        import pandas as pd

        from medunlearn.attacks.membership.passes import shown_pictures
        from medunlearn.attacks.whitebox.patient_features import told_apart
        from medunlearn.results.scores import score_table

        subject, records = model.benchmark.subject, [*forgotten, *others]
        shares = told_apart(
            model.live,
            records,
            [subject(record.record_id) for record in records],
            len(forgotten),
            max_length=model.run.info.rendering["max_length"],
            batch_size=model.settings.batch_size,
            seed=model.settings.seed,
            pictures=shown_pictures(model.live, model.run),
        )
        rows = [
            row(record.record_id, label, self.before, "told_apart", value)
            | {"subject": subject(record.record_id), "side": "forget", "fold": record.fold, "kind": RECORD}
            | {"level": model.benchmark.subject_level, "node": None, "identifier": None}
            for record, value in zip(forgotten, shares, strict=True)
        ]
        return score_table(pd.DataFrame(rows))

    def facts_of(self, model: AttackedModel) -> dict[str, Any]:
        return {"documents": "train fold"}

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        model = sizes.model(self)
        yield sizes.reading([record for record in model.benchmark.records if record.fold in ("train", "holdout")])
