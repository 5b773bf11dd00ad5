"""Words and paths of a drawing, from the specification of a figure."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any


def rounded(value: float) -> str:
    """Pixels with one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def plain(text: object) -> str:
    """Text of a specification without its tags, line breaks as spaces."""
    return html.unescape(re.sub(r"<[^>]+>", "", str(text).replace("<br>", " ")))


def plain_lines(axis: Mapping[str, Any]) -> list[str]:
    """Lines of an axis title."""
    text = axis.get("title", {}).get("text", "")
    return [plain(line) for line in text.split("<br>") if line]


def nth(value: Any, place: int) -> Any:
    return value[place] if isinstance(value, (list, tuple)) else value


def path_data(points: Sequence[tuple[float, float] | None], *, step: bool) -> str:
    """Path data, interrupted at missing points."""
    parts, last = list[str](), None
    for point in points:
        if point is not None:
            if last is None:
                parts.append(f"M{rounded(point[0])},{rounded(point[1])}")
            else:
                corner = f"L{rounded(point[0])},{rounded(last[1])}" if step else ""
                parts.append(f"{corner}L{rounded(point[0])},{rounded(point[1])}")
        last = point
    return "".join(parts)


def point_words(trace: Mapping[str, Any], place: int) -> str:
    """Words of one point for a tooltip: its own, else its name, place and interval."""
    for key in ("hovertext", "text"):
        if isinstance(trace.get(key), list) and place < len(trace[key]):
            own = f"{plain(trace.get('name', ''))}: {plain(trace[key][place])}"
            return plain(trace[key][place]) if key == "hovertext" else own
    texts = [plain(trace.get("name", ""))]
    for axis in "xy":
        value, errors = trace[axis][place], trace.get(f"error_{axis}", {})
        text = plain(value) if isinstance(value, str) else f"{value:.4g}"
        if errors.get("array") and (errors["array"][place] or errors["arrayminus"][place]):
            low, high = value - errors["arrayminus"][place], value + errors["array"][place]
            text += f" [{low:.3f}, {high:.3f}]"
        texts.append(text)
    return f"{texts[0]}: {', '.join(text for text in texts[1:] if text != texts[0])}"
