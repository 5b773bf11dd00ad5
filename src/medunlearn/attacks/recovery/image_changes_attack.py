"""Image changes: forgotten questions behind other images than their own. No torch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from medunlearn.attacks.attack_protocol import Touch
from medunlearn.attacks.recovery.known_values import share_of_facts
from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.attacks.recovery.recovery_interface import VariantScores
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.image_controls import EDITS, with_blank_images, with_edited_images, with_swapped_images
from medunlearn.data.records import Question
from medunlearn.errors import InputError, NotApplicableError

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.results.runs import Run

Change = Literal["swapped", "blank", "turned", "cropped", "noised"]
NO_IMAGES = "the benchmark has no images"
NOT_SHOWN = "the model is shown no images"
IMAGES = "changed-images"
"""Folder of the changed images below an attack's; removed when they were shown."""


@dataclass(frozen=True)
class ImageChanges(RecoveryAttack):
    """The same questions about forgotten patients behind their image, and behind others.

    An unlearned model may hide a finding behind the very image that it was trained on, and say it behind the same
    image turned, cropped or noised; with another patient's image or a blank one, what it says comes from the text
    of the question alone. Measured are the facts of the forgotten patient that the response states and the prompt
    does not, and the probability of the reference answer (geometric mean over its tokens).

    Source: ours, after the image controls of `evaluate`.

    Attributes:
        changes: ``swapped`` (another patient's image), ``blank`` (uniform grey), ``turned`` (upside down),
            ``cropped`` (the middle 70% of each side, enlarged), ``noised`` (Gaussian, a quarter of the range).
    """

    name: ClassVar[str] = "image_changes"
    title: ClassVar[str] = "Image changes"
    source: ClassVar[str] = "ours, after the image controls of `evaluate`"
    question: ClassVar[str] = "whether another image brings back what the patient's own does not"
    before: ClassVar[str] = "true image"
    measures_before: ClassVar[bool] = False
    shared: ClassVar[bool] = False
    touches: ClassVar[tuple[Touch, ...]] = ("answers", "likelihoods")
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "battery": {},
        "quick": {"subjects": 10, "changes": ("blank", "turned")},
    }
    scored_by: ClassVar[tuple[str, ...]] = ("rouge_l", "answer_probability")
    headline: ClassVar[tuple[str, ...]] = ("findings_said", "answer_probability")
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "findings_said": (
            "Findings said",
            "0-1, share of an answer's facts that the response states and the prompt does not; higher = leaks more",
        ),
    }
    alone: ClassVar[str] = (
        "facts said behind any image; what the image shows, a model that never saw the patients may say, too"
    )
    about: ClassVar[tuple[str, ...]] = (
        "Each question about the forgotten patients is asked behind its image and behind changed ones. Strength: "
        "the change. What is said behind a swapped or blank image comes from the text alone.",
    )

    subjects: Annotated[int | None, Field(ge=1)] = 20
    changes: tuple[Change, ...] = ("swapped", "blank", "turned", "cropped", "noised")

    def check(self, benchmark: Benchmark) -> None:
        if not any(record.image for record in benchmark.records):
            raise NotApplicableError(NO_IMAGES)

    def check_run(self, run: Run) -> None:
        if run.rendering().images == "ignore":
            raise NotApplicableError(NOT_SHOWN)

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        import pandas as pd

        questions, notes = self._questions(model), list[str]()
        tables, states, folder = [self._scores(model, self.before, questions)], list[str](), model.folder / IMAGES
        try:
            for change in self.changes:
                try:
                    other = self._changed(model, change, questions, folder)
                except InputError as error:
                    notes.append(f"{change}: {error}")
                    continue
                tables.append(self._scores(model, change, questions, other))
                states.append(change)
        finally:
            # They are the patients' own.
            shutil.rmtree(folder, ignore_errors=True)
        yield VariantScores(self.name, pd.concat(tables, ignore_index=True), "; ".join(notes), tuple(states))

    @staticmethod
    def _questions(model: AttackedModel) -> list[Question]:
        """Raises NotApplicableError: none is about a record with an image."""
        records = model.benchmark.record
        questions = [question for question in model.attacked if records[question.record_id].image is not None]
        if not questions:
            raise NotApplicableError("no question about the forget set is on a record with an image")
        return questions

    @staticmethod
    def _changed(model: AttackedModel, change: str, questions: Sequence[Question], folder: Path) -> Benchmark:
        """The benchmark with changed images. Raises InputError: too few patients to swap images."""
        benchmark, seed = model.benchmark, model.settings.seed
        if change in EDITS:
            records = dict.fromkeys(question.record_id for question in questions)
            return with_edited_images(benchmark, change, records, folder, seed)
        return with_swapped_images(benchmark, seed) if change == "swapped" else with_blank_images(benchmark, folder)

    def _scores(
        self, model: AttackedModel, state: str, questions: Sequence[Question], other: Benchmark | None = None
    ) -> pd.DataFrame:
        """The facts that each response states, and the probability of each reference answer."""
        import pandas as pd

        from medunlearn.results.scores import question_labels, score_table

        responses = model.ask(questions, "" if other is None else state, benchmark=other)
        scores = model.score(questions, responses, self.scored_by)
        rows = list[dict[str, Any]]()
        for question in questions:
            text = responses[question.question_id].response
            share = share_of_facts(model.benchmark, question, question.question, text)
            # A question that states every fact of its answer asks for nothing.
            rows += [] if share is None else [{"item": question.question_id, "value": share}]
        labels = question_labels(model.benchmark, model.benchmark.split(model.settings.split), questions)
        table = pd.DataFrame(rows, columns=["item", "value"]).assign(reason=None, measure="findings_said")
        facts = score_table(table.merge(labels, on="item", how="left", validate="one_to_one"))
        return pd.concat([facts, scores], ignore_index=True).assign(attack=self.name, strength=state)

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        model = sizes.model(self)
        records = model.benchmark.record
        if questions := [q for q in model.attacked if records[q.record_id].image is not None]:
            for _ in range(1 + len(self.changes)):
                yield sizes.answering(questions, model.evaluation)
