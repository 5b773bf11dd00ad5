"""Composed patients: where a collection has one study of each person, several people's studies stand for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from medunlearn.data.studies_of_patients import Exclusion, RadiologySource, RadiologyStudy
from medunlearn.seeds import generator


class Composed:
    """A collection whose studies are grouped, by seed, into patients who do not exist; see ``RadiologySource``.

    Args:
        source: the collection; read to its end at once.
        unfit: why a study cannot be used, or an empty text; such studies are in no patient.
        studies: of each composed patient. Studies that are left over are in none.
        seed: of the grouping.
    """

    composed = True

    def __init__(
        self, source: RadiologySource, unfit: Callable[[RadiologyStudy], str], studies: int, seed: int
    ) -> None:
        self.name, self.source, self.licence = source.name, source.source, source.licence
        self.data_use = source.data_use
        self.has_images = source.has_images
        self.excluded: list[Exclusion] = []
        fit = []
        for study in (study for patient in source.patients() for study in source.studies(patient)):
            if reason := unfit(study):
                self.excluded.append(Exclusion("study", study.study, reason))
            else:
                fit.append(study)
        self.excluded += source.excluded
        order = generator("composed", seed).permutation(len(fit)).tolist()
        full = len(fit) // studies
        width = max(4, len(str(full)))
        self._patients = {
            f"composed-{number + 1:0{width}d}": [
                fit[place] for place in order[number * studies : (number + 1) * studies]
            ]
            for number in range(full)
        }

    def patients(self) -> Sequence[str]:
        return sorted(self._patients)

    def studies(self, patient: str) -> list[RadiologyStudy]:
        return [replace(study, patient=patient) for study in self._patients[patient]]
