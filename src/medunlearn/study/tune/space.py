"""Search space of a method: ranges of run settings and method settings, by a fixed rule or from the user.

The rule for every method: the learning rate, and each positive non-integer setting of the method, from a tenth to
ten times the untuned value, in log space and within the field's range; epochs from half to twice the untuned
number. Integers, texts and switches of a method are searched only if the user names them, except for the layers
that CHIP edits: as untuned, all, or the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from medunlearn.config import LoopFields, UnlearnSettings
from medunlearn.errors import ConfigError, InputError, unknown_name
from medunlearn.methods import hyperparameters, is_edit, method_class
from medunlearn.ranges import bounds_of
from medunlearn.registry import hints_of
from medunlearn.study.presets import unlearning_method

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Value = float | int | str | bool
FACTOR = 10.0
"""From the untuned value to either end of a default range."""
RUN_FIELDS = (*LoopFields.model_fields, "trainable", "train_on")
"""Settings of a run that may be searched."""
NOT_SEARCHED: Mapping[str, tuple[str, ...]] = {"manu": ("epsilon",)}
"""Numbers of a method's own without a default range: they keep a division from failing."""
ALSO_SEARCHED: Mapping[str, Mapping[str, tuple[Value, ...]]] = {"chip": {"layers": ("all", "last:1")}}
"""Texts of a method's own with a default range: the untuned value, and these, which every model has."""


@dataclass(frozen=True)
class Dimension:
    """One setting's range: ``low`` to ``high``, or ``choices`` where there are any.

    Attributes:
        name: key after ``METHOD.``.
        whole: only whole numbers.
        log: True for a logarithmic scale.
    """

    name: str
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    log: bool = True
    choices: tuple[Value, ...] = ()

    @property
    def ends(self) -> tuple[Value, ...]:
        """Both ends of the range, or every choice."""
        return self.choices or (self._number(self.low), self._number(self.high))

    @property
    def text(self) -> str:
        """The range for tables: ``0.01 to 1, log``, ``paper or openunlearning``."""
        if self.choices:
            return " or ".join(map(str, self.choices))
        return f"{self.low:g} to {self.high:g}" + (", log" if self.log else "")

    def holds(self, value: Any) -> bool:
        """True if a value is in the range."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def edge(self, value: Any) -> str:
        """``lowest`` or ``highest`` for a number within a fiftieth of the range from an end, else ""."""
        if self.choices or self.high == self.low:
            return ""
        place = (value - self.low) / (self.high - self.low)
        if self.log:
            from math import log

            place = log(value / self.low) / log(self.high / self.low)
        if self.whole and value not in (self.low, self.high):
            return ""
        return "lowest" if place <= 0.02 else "highest" if place >= 0.98 else ""

    def distribution(self) -> BaseDistribution:
        """The range as an Optuna distribution."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.choices:
            return CategoricalDistribution(self.choices)
        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def _number(self, value: float) -> Value:
        return int(value) if self.whole else value


Space = tuple[Dimension, ...]


def default_values(settings: UnlearnSettings) -> dict[str, Any]:
    """Every searchable setting -> its untuned value; the method's take precedence over the run's."""
    run = {} if is_edit(settings.method) else {name: getattr(settings, name) for name in RUN_FIELDS}
    return run | hyperparameters(unlearning_method(settings))


def default_space(settings: UnlearnSettings) -> dict[str, Dimension]:
    """The default space of a method by this module's rule, by setting name."""
    values, method = default_values(settings), settings.method
    own, dimensions = _own_bounds(method), list[Dimension]()
    if not is_edit(method):
        dimensions.append(_around("lr", settings.lr, {}))
        if settings.epochs:
            least = max(1, settings.epochs // 2)
            dimensions.append(Dimension("epochs", least, 2 * settings.epochs, whole=True))
    for name, bounds in own.items():
        value = values[name]
        if isinstance(value, float) and value > 0 and name not in NOT_SEARCHED.get(method, ()):
            dimensions.append(_around(name, value, bounds))
    for name, choices in ALSO_SEARCHED.get(method, {}).items():
        dimensions.append(Dimension(name, choices=tuple(dict.fromkeys((values[name], *choices)))))
    return {dimension.name: dimension for dimension in dimensions}


def _around(name: str, value: float, bounds: Mapping[str, float]) -> Dimension:
    low = max(value / FACTOR, bounds.get("ge", 0.0))
    high = min(value * FACTOR, bounds.get("le", float("inf")))
    # Open ends are kept off by a small share, since a range holds both of its ends.
    if "gt" in bounds and low <= bounds["gt"]:
        low = bounds["gt"] + (value - bounds["gt"]) / FACTOR
    if "lt" in bounds and high >= bounds["lt"]:
        high = bounds["lt"] - (bounds["lt"] - value) / FACTOR
    return Dimension(name, float(f"{low:.6g}"), float(f"{high:.6g}"))


def _own_bounds(method: str) -> dict[str, dict[str, float]]:
    """Settings of a method -> bounds of their range."""
    cls = method_class(method)
    hints = hints_of(cls)
    return {field.name: bounds_of(hints.get(field.name)) for field in fields(cls)}


def space_of(settings: UnlearnSettings, section: Mapping[str, Any]) -> Space:
    """A method's space: the default one, changed by the user's ranges for all methods (``lr``) and for it
    (``npo.lr``).

    Raises:
        ConfigError: lists every mistake: an unknown setting, an invalid range, an empty space.
    """
    method, problems = settings.method, list[str]()
    own = {key.removeprefix(f"{method}."): v for key, v in section.items() if key.startswith(f"{method}.")}
    shared = {key: value for key, value in section.items() if "." not in key and ":" not in key}
    values, dimensions = default_values(settings), default_space(settings)
    for key, content in {**shared, **own}.items():
        label = f"{method}.{key}" if key in own else key
        if key not in values:
            # A range for all methods serves those that have the setting.
            if key in own:
                problems.append(unknown_name(f"{method} setting", key, values))
            continue
        if content is None:
            dimensions.pop(key, None)
            continue
        try:
            dimensions[key] = _read(key, content, values[key])
        except InputError as error:
            problems.append(f"{label}: {error}")
    if not dimensions and not problems:
        problems.append(
            f"nothing is searched for {method}: give a range, e.g. space: {{{method}.KEY: [low, high]}}"
        )
    if problems:
        raise ConfigError(problems)
    return tuple(dimensions.values())


def _read(name: str, content: Any, value: Any) -> Dimension:
    """Parse a user's range."""
    words = "give [low, high], {low: ..., high: ..., log: false}, {choices: [...]}, or null"
    if isinstance(content, Mapping):
        if unknown := [key for key in content if key not in ("low", "high", "log", "choices")]:
            raise InputError(unknown_name("key of a range", str(unknown[0]), ("low", "high", "log", "choices")))
        if "choices" in content:
            return _choices(name, content["choices"], alone=len(content) == 1)
        low, high, log = content.get("low"), content.get("high"), content.get("log")
    elif isinstance(content, Sequence) and not isinstance(content, str) and len(content) == 2:
        (low, high), log = content, None
    else:
        raise InputError(f"{content!r}: {words}")
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high)):
        raise InputError(f"{content!r}: {words}")
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if not isinstance(log, bool | None) or not (abs(low) < float("inf") and low < high < float("inf")):
        raise InputError(f"{content!r}: low must be below high, both finite, and log true or false")
    if log and low <= 0:
        raise InputError(f"{content!r}: in log space low is above 0")
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and (low != int(low) or high != int(high)):
        raise InputError(f"{content!r}: use a whole number")
    if name == "epochs" and low < 1:
        raise InputError(f"{content!r}: a trial has at least one epoch")
    return Dimension(name, low, high, whole, low > 0 if log is None else log)


def _choices(name: str, choices: Any, *, alone: bool) -> Dimension:
    fine = isinstance(choices, list | tuple) and all(isinstance(choice, Value) for choice in choices)
    if not fine or not alone or len(choices) < 2 or len(set(map(repr, choices))) < len(choices):
        raise InputError(f"choices={choices!r}: give two or more different values, and no other key beside them")
    if name == "epochs" and any(not isinstance(choice, int) or choice < 1 for choice in choices):
        raise InputError(f"choices={choices!r}: a trial has at least one epoch")
    return Dimension(name, choices=tuple(choices))


def space_facts(space: Space) -> list[dict[str, Any]]:
    """The space for JSON and keys."""
    return [asdict(dimension) for dimension in space]
