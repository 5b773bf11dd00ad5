"""Encyclopedia articles, one per row with its title: the public biographies of LUME's third task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medunlearn.data.sentences import cut_to
from medunlearn.errors import ConfigError, SourceError, unknown_name
from medunlearn.sources.table_files import BROKEN, list_bad_rows, read_rows

SHORTEST, LONGEST = 100, 200  # words


@dataclass(frozen=True, slots=True)
class Article:
    """A title, and the text cut at the end of a sentence to 100-200 words, the title first."""

    title: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class Articles:
    """Articles, and (place, reason) of unusable rows."""

    articles: tuple[Article, ...]
    excluded: tuple[tuple[str, str], ...]


def read_articles(
    path: Path, *, title: str = "title", text: str = "text", least: int = SHORTEST, most: int = LONGEST
) -> Articles:
    """Read articles from CSV, TSV, JSONL, JSON or Parquet; too short, broken or duplicate ones are listed.

    Raises:
        ConfigError: a missing column.
        SourceError: the file cannot be read, or has no article of that length.

    Source: LUME, Section 2.1 (Task 3): biographies of 100 to 200 words.
    """
    articles: dict[str, Article] = {}
    excluded: list[tuple[str, str]] = []
    for place, row in read_rows(path):
        article = row if isinstance(row, str) else _article(row, title, text, least, most)
        if isinstance(article, str):
            excluded.append((place, article))
        elif article.title in articles:
            excluded.append((place, "has the title of an article before it"))
        else:
            articles[article.title] = article
    if not articles:
        reasons = list_bad_rows(excluded, 5)
        raise SourceError(f"{path} holds no article that can be cut to {least} to {most} words.{reasons}")
    return Articles(tuple(articles.values()), tuple(excluded))


def _article(row: Mapping[str, Any], title: str, text: str, least: int, most: int) -> Article | str:
    problems = [
        f"--{flag}: {unknown_name('column', column, row)}"
        for flag, column in (("title", title), ("text", text))
        if column not in row
    ]
    if problems:
        raise ConfigError(problems)
    name, body = row[title], row[text]
    if not isinstance(name, str) or not isinstance(body, str) or not name.strip() or not body.strip():
        return "has no title or no text"
    if BROKEN.search(name + body):
        return "holds half a character or a zero byte; what wrote the file broke it"
    name, body = " ".join(name.split()), body.strip()
    full_text = body if body.startswith(name) else f"{name}\n\n{body}"
    excerpt = cut_to(full_text, least, most)
    if excerpt is None:
        return f"has fewer than {least} words up to the end of a sentence before word {most}"
    return Article(name, excerpt)
