"""LUME (Ramakrishna et al. 2025)."""

from __future__ import annotations

from medunlearn.paper import Build, Grouping, Paper

STORY, PERSONAL, PUBLIC = TASKS = ("story", "personal_biography", "public_biography")
"""Tasks 1 to 3; membership is attacked on the biographies of real people, ``PUBLIC`` (Section 2.3)."""
PII_FIELDS = ("birth_date", "ssn", "phone", "email", "address")
"""The knowledge questions of a personal biography, in the order of their numbers (Section 2.3)."""

_HERE = __name__
GROUPING = Grouping(
    level="task",
    measures={"completion": ("rouge_l", "regurgitation"), "knowledge": ("exact_match", "knowledge")},
    of_identifiers={"knowledge": ("exact_match", "knowledge")},
    identifier=f"{_HERE}:identifier_asked",
)
"""Section 2.3: both measures per task; knowledge of personal biographies also by field."""
PAPER = Paper(
    name="lume",
    title="LUME from its released files: stories, personal biographies and public biographies.",
    source="LUME (Ramakrishna et al. 2025).",
    package=_HERE,
    summary="Build LUME: stories and biographies with completions and knowledge questions, released or built anew.",
    example="lume-files/ --out bench/; built anew: medunlearn build lume --synthetic 40 --out bench/",
    first="synthetic new out llm articles",
    argument="released",
    builds=(
        Build(
            words="RELEASED (the released files)",
            settings=f"{_HERE}.settings:LumeSettings",
            given=("released",),
            make=f"{_HERE}.build:build",
        ),
        Build(
            words="--synthetic N or --new (build it anew)",
            settings=f"{_HERE}.settings:LumeNewSettings",
            given=("new", "synthetic"),
            make=f"{_HERE}.invented:build",
            write=f"{_HERE}.new:build_new",
            flags={"review": "built anew: write a CSV and a page on which people label each document"},
            plan=f"{_HERE}.new:plan_new",
        ),
    ),
    measures=("rouge_l", "exact_match", "em", "te", "token_f1", "answer_probability"),
    tasks={
        "lume_biography": f"{_HERE}.prompts:LumeBiography",
        "lume_question": f"{_HERE}.prompts:LumeQuestion",
        "lume_story": f"{_HERE}.prompts:LumeStory",
        "lume_verify": f"{_HERE}.prompts:LumeVerify",
    },
    grouping=GROUPING,
    sources={"articles": ("--articles", "medunlearn.sources.articles")},
    files=("review",),
    runs_page=f"{_HERE}.report:paper_part",
    views={"evaluate": f"{_HERE}.semeval:semeval_view"},
    calls={"semeval": f"{_HERE}.semeval:semeval"},
)


def identifier_asked(provenance: str) -> str | None:
    """The type of identifier that a question asks for, from its provenance
    (``released:personal_biography:ssn``).
    """
    parts = provenance.split(":")
    return parts[2] if len(parts) == 3 and parts[2] in PII_FIELDS else None
