"""Methods composed of parts: ``npo+kl``, ``graddiff+js+sam``, ``my_module:Mine+relearn``.

The first name is a loss method's; each part replaces or adds one thing:

- a retain term (``nll``, ``kl``, ``js``, ``hidden``; :mod:`medunlearn.methods.retain_terms`) in place of the
  method's own terms of the retain side;
- a perturbation (``sam``, ``relearn``, ``noise``, ``int4``; :mod:`medunlearn.methods.perturbations`);
- a gradient rule (``gru``, ``repselect``; :mod:`medunlearn.methods.gradient_rules`).

A part's settings carry its name: ``--npo+kl.kl_weight 2``. An installed package adds parts by entry points in the
group ``medunlearn.method_parts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass, make_dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

from medunlearn.errors import InputError, UnknownNameError
from medunlearn.methods.hooks import is_retained
from medunlearn.methods.protocol import Terms, View
from medunlearn.registry import hints_of, names, resolve

PARTS: Mapping[str, str] = {
    "nll": "medunlearn.methods.retain_terms:NLL",
    "kl": "medunlearn.methods.retain_terms:KL",
    "js": "medunlearn.methods.retain_terms:JS",
    "hidden": "medunlearn.methods.retain_terms:HiddenStates",
    "sam": "medunlearn.methods.perturbations:SAM",
    "relearn": "medunlearn.methods.perturbations:Relearn",
    "noise": "medunlearn.methods.perturbations:WeightNoise",
    "int4": "medunlearn.methods.perturbations:Int4",
    "gru": "medunlearn.methods.gradient_rules:GRU",
    "repselect": "medunlearn.methods.gradient_rules:RepSelect",
}
SLOTS = {"retain": "retain term", "perturbation": "perturbation", "gradient_rule": "gradient rule"}


def part_class(name: str) -> type:
    """The class of a part. Raises UnknownNameError: names the nearest valid name."""
    known = names("method_parts", dict(PARTS))
    if name not in known:
        raise UnknownNameError("part of a method", name, known)
    cls: type = resolve("method_parts", name, dict(PARTS))
    return cls


def parts_of(name: str) -> tuple[str, ...]:
    """Names of the parts of a composed method's name; empty for another."""
    return tuple(name.split("+")[1:])


def retain_part_of(name: str) -> str | None:
    """The retain term that a composed method's name declares, as families have it; None: its base's own."""
    terms = (str(getattr(part_class(part), "retain_term", "")) for part in parts_of(name))
    return next(filter(None, terms), None)


class ComposedMethod:
    """A loss method with parts; subclasses of it and of the method are made by :func:`composed`."""

    base: ClassVar[type[Any]]
    part_names: ClassVar[tuple[str, ...]]

    @cached_property
    def parts(self) -> Mapping[str, Any]:
        """The parts by their slot."""
        made = {}
        for name in self.part_names:
            cls = part_class(name)
            own = {setting.name: getattr(self, f"{name}_{setting.name}") for setting in fields(cls)}
            made[getattr(cls, "slot", "")] = cls(**own)
        return made

    def loss(self, forget: View, retain: View) -> Terms:
        return self._with_parts(self.base.loss(self, forget, retain), forget, retain)

    def loss_with(self, forget: View, retain: View, alternatives: View) -> Terms:
        return self._with_parts(self.base.loss_with(self, forget, retain, alternatives), forget, retain)

    def _with_parts(self, terms: Terms, forget: View, retain: View) -> Terms:
        part, perturbation = self.parts.get("retain"), self.parts.get("perturbation")
        if part is not None:
            terms = {name: term for name, term in terms.items() if not is_retained(name)} | part.terms(retain)
        return terms if perturbation is None else {**terms, **perturbation.terms(forget)}

    @property
    def perturbation(self) -> Any:
        return self.parts.get("perturbation")

    @property
    def gradient_rule(self) -> Any:
        return self.parts.get("gradient_rule")


@cache
def composed(name: str, base: type) -> type:
    """The class of a composed method.

    Args:
        name: the method's name and the parts' names, with ``+`` between.
        base: the method's class.

    Raises:
        UnknownNameError: an unknown part.
        InputError: an edit, two parts for one slot, or a gradient rule for a method that has its own.
    """
    part_names, classes = parts_of(name), [part_class(part) for part in parts_of(name)]
    slots = [str(getattr(cls, "slot", "")) for cls in classes]
    if getattr(base, "kind", None) == "edit" or not is_dataclass(base):
        raise InputError(f"{name}: parts are added to methods that train, and {name.split('+')[0]} is none.")
    for slot in slots:
        if slot not in SLOTS:
            raise InputError(f"{name}: a part's slot must be {', '.join(SLOTS)}, not {slot!r}.")
        if slots.count(slot) > 1:
            raise InputError(f"{name}: it can have one {SLOTS[slot]}.")
    if "gradient_rule" in slots and hasattr(base, "weigh"):
        raise InputError(
            f"{name}: {name.split('+')[0]} combines the gradients itself. Leave the gradient rule out."
        )
    own = []
    for part, cls in zip(part_names, classes, strict=True):
        hints = hints_of(cls)
        own += [
            (f"{part}_{setting.name}", hints.get(setting.name, Any), field(default=setting.default))
            for setting in fields(cls)
            if setting.init
        ]
    about = "\n\n".join(cls.__doc__ or "" for cls in (base, *classes))
    namespace = {
        "title": " + ".join(str(getattr(cls, "title", cls.__name__)) for cls in (base, *classes)),
        "base": base,
        "part_names": part_names,
        # Read for what it needs of the model, since a class that was made has no source.
        "sources": (*base.__mro__[:-1], *(cls for cls in classes if getattr(cls, "slot", "") != "gradient_rule")),
        "__doc__": about,
        "__module__": __name__,
    }
    frozen = base.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return make_dataclass(name, own, bases=(ComposedMethod, base), namespace=namespace, frozen=frozen)
