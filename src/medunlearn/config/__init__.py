"""Settings of every command: typed, flat, with the help text next to the field.

Unknown keys are refused with the nearest right one, and all mistakes are reported at once. Optional settings
default to the AMNESIA paper's values (Table 6).
"""

from __future__ import annotations

from medunlearn.config.adoption import AdoptSettings
from medunlearn.config.diagnosis import AskedSettings, DiagnoseSettings, WatchSettings
from medunlearn.config.evaluation import (
    AttackSettings,
    EvaluateSettings,
    JudgeSettings,
    TaskExportSettings,
    UtilitySettings,
)
from medunlearn.config.experiments import (
    Axis,
    ExpectedSettings,
    ExperimentSettings,
    SearchSettings,
    SweepSettings,
    TuneSettings,
)
from medunlearn.config.forgetting import ForgetSettings
from medunlearn.config.prompt_files import PromptFile
from medunlearn.config.reading import as_value, check, merge, read_yaml
from medunlearn.config.settings import Context, Images, LongNotes, Percent, Settings, Template, Unlearned, What
from medunlearn.config.training import TINIES, EpochFields, LoopFields, TrainSettings, UnlearnSettings

__all__ = [
    "TINIES",
    "AdoptSettings",
    "AskedSettings",
    "AttackSettings",
    "Axis",
    "Context",
    "DiagnoseSettings",
    "EpochFields",
    "EvaluateSettings",
    "ExpectedSettings",
    "ExperimentSettings",
    "ForgetSettings",
    "Images",
    "JudgeSettings",
    "LongNotes",
    "LoopFields",
    "Percent",
    "PromptFile",
    "SearchSettings",
    "Settings",
    "SweepSettings",
    "TaskExportSettings",
    "Template",
    "TrainSettings",
    "TuneSettings",
    "UnlearnSettings",
    "Unlearned",
    "UtilitySettings",
    "WatchSettings",
    "What",
    "as_value",
    "check",
    "merge",
    "read_yaml",
]
