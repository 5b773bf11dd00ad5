"""Composed patients: for collections with one study per person, several people's studies form one patient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from medunlearn.data.studies_of_patients import Exclusion, RadiologySource, RadiologyStudy
from medunlearn.seeds import generator


class Composed:
    """A collection with studies grouped, by seed, into fictitious patients; see ``RadiologySource``.

    Args:
        source: the collection, which is read completely.
        unfit: function that gives the reason why a study is unusable, or ""; such studies are excluded.
        studies: number per composed patient; remaining studies are excluded.
        seed: seed of the grouping.
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
