"""The model of a run as the runner offers it to attacks."""

from __future__ import annotations

from typing import Any

from medunlearn.attacks.attacked import FOLDER
from medunlearn.attacks.model_holder import Asker, ModelHolder
from medunlearn.attacks.recovery.attacked_model import AttackedModel
from medunlearn.attacks.recovery.measuring import StateMeasurer
from medunlearn.config import EvaluateSettings
from medunlearn.models.sequences import Rendering
from medunlearn.probes.questioning import Questioning


class Workbench(ModelHolder):
    """The model of a run, with the questions of the attacks on it."""

    def asker(self, settings: EvaluateSettings, rendering: Rendering, variant: str) -> Asker:
        return Questioning(
            self.run,
            self.benchmark,
            settings,
            rendering,
            self.device,
            self.silent,
            self.live,
            self.run.folder / FOLDER,
            variant=variant,
            load=lambda: self.model,
        )

    def attacked_model(self, attack: Any) -> AttackedModel:
        return StateMeasurer(
            self.run, self.benchmark, attack, self.settings, self.model, self.silent, second=self.second
        )
