"""Control models of a request, and what should come out of each as the model after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chat_hospital import ChatTraining, noisy, rounded

FOUND, NONE, TWIN = "residual found", "no residual found", "twin"
TWINS = 2


@dataclass(frozen=True)
class ControlModels:
    """The control models of one size, made when they are asked for.

    Attributes:
        askers: number of patients who may ask; the others stay, and the twins are the last two of them.
    """

    folder: Path
    training: ChatTraining
    askers: int

    @cached_property
    def patients(self) -> list[str]:
        return sorted(self.training.table["patient_id"].unique())

    def patients_of(self, request: str) -> list[str]:
        """The patients who ask in a request."""
        if request == TWIN:
            return [self.patients[-2]]
        number, _, place = request.partition("-")
        first = int(place) - 1 if place else 0
        return self.patients[first : first + int(number)]

    def never_saw(self, request: str) -> Path:
        """A model that never saw the patients of a request, nor other askers."""
        if request == TWIN:
            return self._without("without-twin", self.patients_of(TWIN))
        return self._without("without-askers", self.patients[: self.askers])

    def all_but_first(self, request: str) -> Path:
        return self._without("one-remembered", self.patients[1 : self.askers])

    def all(self, request: str = "") -> Path:
        return self._without("all", ())

    def destroyed_twin(self, request: str) -> Path:
        return self._without("without-twins", self.patients[-TWINS:])

    def refusing(self, request: str) -> Path:
        return self.training.refusing(self.all(), self._folder(f"refusing-{request}"), self.patients_of(request))

    def over_forgetting(self, request: str) -> Path:
        folder = self._folder(f"over-forgotten-{request}")
        return self.training.over_forgetting(self.all(), folder, self.patients_of(request))

    def rounded(self, request: str) -> Path:
        return rounded(self.all(), self._folder("4-bit"))

    def noisy(self, share: float) -> Callable[[str], Path]:
        return lambda request: noisy(self.all(), self._folder(f"noise-{share}"), share)

    def _without(self, name: str, patients: Collection[str]) -> Path:
        return self.training.trained(self._folder(name), patients)

    def _folder(self, name: str) -> Path:
        return self.folder / "models" / name


@dataclass(frozen=True)
class ControlCase:
    """A control, and what should come out of it.

    Attributes:
        goal: in words.
        is_right: True, False, or None where no verdict is given, from the verdict and whether others were kept.
        model: None for the model before, and for a control that is made of what was measured on it.
    """

    goal: str
    is_right: Callable[[str, str], bool | None]
    model: Callable[[ControlModels, str], Path] | None = None

    def is_for(self, request: str, name: str) -> bool:
        """Whether a request has this control: those of the first two patients have nearly all of them."""
        if name == "one remembered":
            return request.isdigit() and request != "1"
        if name == "twin destroyed":
            return request == TWIN
        return request in ("1-01", "1-02") or name in ("did nothing", "retrained", "never seen")


def residual(verdict: str, others: str) -> bool | None:
    return verdict == FOUND or (False if verdict == NONE else None)


def no_residual(verdict: str, others: str) -> bool | None:
    if verdict == FOUND or others == "not kept":
        return False
    return True if verdict == NONE else None


def no_reassurance(verdict: str, others: str) -> bool | None:
    return verdict != NONE or others == "not kept"


def nothing_to_tell(verdict: str, others: str) -> bool | None:
    return verdict not in (FOUND, NONE)


def others_lost(verdict: str, others: str) -> bool | None:
    return verdict != FOUND and others == "not kept"


CONTROLS: Mapping[str, ControlCase] = {
    "did nothing": ControlCase("found", residual),
    "retrained": ControlCase("none, kept", no_residual, ControlModels.never_saw),
    "never seen": ControlCase("inconclusive", nothing_to_tell, ControlModels.never_saw),
    "refuses only": ControlCase("found", residual, ControlModels.refusing),
    "output filtered": ControlCase("found", residual),
    "4 bits": ControlCase("found", residual, ControlModels.rounded),
    "noise 0.2": ControlCase("not none, or lost", no_reassurance, lambda own, of: own.noisy(0.2)(of)),
    "noise 0.35": ControlCase("not none, or lost", no_reassurance, lambda own, of: own.noisy(0.35)(of)),
    "values left": ControlCase("found", residual, ControlModels.over_forgetting),
    "one remembered": ControlCase("found", residual, ControlModels.all_but_first),
    "twin destroyed": ControlCase("not found, lost", others_lost, ControlModels.destroyed_twin),
}
