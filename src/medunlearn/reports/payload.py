"""The old name of :func:`medunlearn.reports.json.plain`, until the papers' reports are lists of blocks."""

from medunlearn.reports.json import plain as plain
