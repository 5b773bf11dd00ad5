"""From a sweep whose splits are levels of a hierarchy to the content of MedForget's report."""

from medunlearn.papers.medforget.levels.results import gather_levels

__all__ = ["gather_levels"]
