"""Ways of asking side by side: a chat model is found by prompts in its template where beginnings miss it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from chat_models import save_chat_model
from fake_server import FakeServer
from pages import Page
from row_files import write_lines

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_run import audit
from medunlearn.errors import ConfigError
from medunlearn.papers.memorization.compare import write_audit_report
from medunlearn.seeds import generator

WORDS = (
    *("fever", "left", "scan", "of", "knee", "was", "clear", "after", "two", "weeks", "she", "walked", "again"),
    *("chest", "pain", "no", "cough", "warm", "lungs", "dry"),
)
TRAINED, ALL, PREFIX = 5, 10, 4
PROMPT = "Write the clinical note of {name}, {complaint}."
OTHER = "What is in the file of {name}?"
HOW: dict[str, Any] = {"prefixes": (PREFIX,), "max_new_tokens": 60, "quiet": True, "replicates": 20}
CHAT: dict[str, Any] = {**HOW, "template": "chat", "prompt": (PROMPT, OTHER)}
MEASURES = {"measures": ("run_30",)}


def notes() -> pd.DataFrame:
    names = ("Ada", "Ben", "Cleo", "Dov", "Eve", "Finn", "Gus", "Hope", "Ida", "Jon")
    rows = []
    for number, name in enumerate(names):
        draw = generator("ways", str(number))
        text = " ".join(str(draw.choice(WORDS)) for _ in range(38))
        rows.append((f"n{number}", f"MRN{number}", name, WORDS[number], text, int(number < TRAINED)))
    return pd.DataFrame(rows, columns=["id", "subject", "name", "complaint", "text", "copies"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes, a chat model that was trained on prompt -> note of the first five, and one that was not."""

    folder, table = tmp_path_factory.mktemp("ways"), notes()
    table.to_csv(folder / "notes.csv", index=False)
    pairs = [(PROMPT.format(**row), row["text"]) for row in table.head(TRAINED).to_dict("records")]
    save_chat_model(folder / "chat", pairs, steps=160)
    save_chat_model(folder / "before", pairs, steps=0)
    return folder


@pytest.fixture(scope="module")
def result(world: Path) -> Audit:
    return audit(world / "chat", world / "notes.csv", out=world / "audit", **CHAT)


def test_prompts_in_the_template_find_what_beginnings_miss(result: Audit) -> None:
    screen = result.first_screen()
    by_way = {entry.way: entry for entry in screen.ways}
    assert list(by_way) == ["prefix", "prefix_in_chat", "prompt_1", "prompt_2"]
    assert by_way["prefix"].members.hits == 0
    assert by_way["prompt_1"].members.hits >= TRAINED - 1
    assert {entry.members.n for entry in by_way.values()} == {TRAINED}
    assert all(entry.unseen is not None and entry.unseen.hits == 0 for entry in by_way.values())
    hits = screen.extraction.corpora[0].members.hits
    assert screen.answer == f"{hits} of 5 patients can be extracted"
    text = " ".join(screen.sentences)
    assert f"prompt 1, in a chat: {PROMPT}: {by_way['prompt_1'].members.hits} of 5 (never seen: 0 of 5)" in text
    assert f"{hits} patients are brought out by other ways of asking alone" in text
    assert "or a prompt, a response (greedy)" in text
    assert "the model has memorized text" in text
    assert not any("prompts other than" in line for line in screen.missing)
    assert {row["way"]: row["extracted"] for row in screen.data()["ways"]} == {
        way: entry.members.hits for way, entry in by_way.items()
    }


def test_the_example_of_the_page_is_computed(result: Audit) -> None:
    text = " ".join(result.first_screen().sentences)
    quotes = Page.read("audit.md", "Run an audit").quotes("a chat model")
    assert len(quotes) == 2
    assert [quote for quote in quotes if quote not in text] == []


def test_a_chat_model_that_never_saw_the_notes_is_told_apart(world: Path) -> None:
    screen = audit(world / "before", world / "notes.csv", out=world / "clean", **CHAT, **MEASURES).first_screen()
    assert screen.answer == "0 of 5 patients can be extracted"
    assert "has memorized" not in " ".join(screen.sentences)
    assert screen.missed_sentences == ()


def test_the_answer_to_a_prompt_is_the_whole_note(result: Audit) -> None:
    """What the model was given stands beside it, and the template is no part of either."""
    probes = result.probes().set_index("probe_id")
    row = notes().set_index("id").loc["n3"]
    probe = probes.loc["n3@prompt_1"]
    assert (probe["prefix"], probe["suffix"]) == (PROMPT.format(**row), row["text"])
    begun = probes.loc["n3@4.chat"]
    assert begun["prefix"] + begun["suffix"] == row["text"]
    shown = result.responses().set_index("probe_id").loc["n0@prompt_1", "response"]
    assert shown == notes()["text"][0]
    assert result.run.info.results["model"]["chat_template"] == "used"
    counts = result.run.info.results["corpora"][0]
    assert (counts["without_prompt"], counts["too_short_for_prefix"]) == ({"prompt_1": 0, "prompt_2": 0}, {"4": 0})


def test_terminal_and_page_show_the_ways(result: Audit, world: Path, run: Callable[..., Any]) -> None:
    words = " ".join(run("inspect", world / "audit").output.split())
    assert "way of asking" in words
    assert "beginning of the text, in a chat 0 of 5" in words
    assert "chat template, which" not in words
    whole = run("inspect", world / "audit", "--all")
    assert "beginning of the text, in a chat" in " ".join(whole.output.split())
    page = write_audit_report([world / "audit"], world / "report", replicates=20)
    text = page.with_suffix(".md").read_text()
    assert text.index("Ways of asking") < text.index("Not looked for")
    assert "prompt 1, in a chat" in text
    # The paper's tables are of beginnings given as they are.
    data = json.loads(page.with_suffix(".json").read_text())
    assert set(data["ratios"]["prefix_tokens"]) == {PREFIX}
    assert set(data["ratios"]["n_subjects"]) == {0, ALL}


def test_prompts_alone_make_an_audit_and_a_page(world: Path) -> None:
    how = {**CHAT, "prompt": PROMPT, "ways": ("prompt",), **MEASURES}
    screen = audit(world / "chat", world / "notes.csv", out=world / "alone", **how).first_screen()
    assert screen.extraction.corpora[0].members.hits >= TRAINED - 1
    assert screen.ways == ()
    assert "given a prompt, a response (greedy) repeats 30 tokens in a row of the text" in screen.sentences[-1]
    assert any("--ways" in line for line in screen.missing)
    page = write_audit_report([world / "alone"], world / "alone-report", replicates=20)
    assert screen.answer in page.with_suffix(".md").read_text()


def test_a_note_whose_column_is_empty_is_not_asked_by_that_prompt(world: Path, tmp_path: Path) -> None:
    table = notes()
    table.loc[2, "complaint"] = ""
    table.to_csv(tmp_path / "notes.csv", index=False)
    result = audit(world / "before", tmp_path / "notes.csv", out=tmp_path / "audit", **CHAT, **MEASURES)
    assert result.run.info.results["corpora"][0]["without_prompt"] == {"prompt_1": 1, "prompt_2": 0}
    assert not result.probes()["probe_id"].isin(["n2@prompt_1"]).any()


def test_a_server_is_asked_in_its_chat(world: Path, tmp_path: Path) -> None:
    """The server's own template is used; what it says is scored by the same rules."""
    by_name = {row["name"]: row["text"] for row in notes().to_dict("records")}

    def says(body: dict[str, Any]) -> str:
        if "prompt" in body:
            return "nothing of the kind"
        name = re.search(r"note of (\w+),", body["messages"][0]["content"])
        return by_name[name[1]] if name else "I do not know"

    how = {**CHAT, "tokenizer": str(world / "chat"), "data_use": "open", **MEASURES}
    with FakeServer(answer=says) as server:
        result = audit(
            server.base_url, world / "notes.csv", model_name="m", out=tmp_path / "audit", unseen=(), **how
        )
        bodies = [body for body, _ in server.seen]
    screen = result.first_screen()
    hits = {entry.way: (entry.members.hits, entry.unseen and entry.unseen.hits) for entry in screen.ways}
    assert hits == {"prefix": (0, 0), "prefix_in_chat": (0, 0), "prompt_1": (5, 5), "prompt_2": (0, 0)}
    assert sum("messages" in body for body in bodies) == 3 * ALL
    assert sum("prompt" in body for body in bodies) == ALL
    # Everybody's note comes back, those that nobody trained on too: that is no memory of the training text.
    assert "has memorized" not in " ".join(screen.sentences)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ways": ("prompt",)}, "prompt needs a --prompt"),
        ({"ways": ("prefix_in_chat",)}, "needs --template chat"),
        ({"ways": ("guess",)}, "'guess' is none of"),
        ({"prompt": "Write of {nane}."}, "name"),
        ({"prompt": PROMPT, "ways": ("prefix",)}, "is given but not used"),
    ],
)
def test_ways_that_cannot_be_asked_are_refused(
    world: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        audit(world / "before", world / "notes.csv", out=tmp_path / "audit", **HOW, **settings)
    assert not (tmp_path / "audit").exists()


def test_a_model_without_template_and_texts_without_columns_are_refused(world: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text(notes()["text"][0])
    with pytest.raises(ConfigError, match="text files, which have no column 'name'"):
        audit(world / "before", tmp_path / "note.txt", out=tmp_path / "audit", **CHAT)
    shutil.copytree(world / "before", tmp_path / "plain")
    (tmp_path / "plain" / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="has no chat template"):
        audit(tmp_path / "plain", world / "notes.csv", out=tmp_path / "audit", **CHAT)


def sampled(folder: Path, hits: dict[str, list[list[bool]]]) -> Audit:
    """Stored responses: patient -> prompts -> whether each sample gives the text back; greedy ones never do."""
    rows = []
    for patient, prompts in hits.items():
        text = " ".join(f"{patient}w{place}" for place in range(60)).split()
        for prompt, samples in enumerate(prompts):
            cut = 5 + prompt
            place = {"record_id": patient, "subject": f"MRN{patient}", "prefix": " ".join(text[:cut])}
            place |= {"suffix": " " + " ".join(text[cut:]), "prefix_tokens": cut}
            rows.append({**place, "variant": "greedy", "sample": 0, "response": f" other {patient}"})
            for number, hit in enumerate(samples):
                shown = place["suffix"] if hit else f" else {patient} {number}"
                rows.append({**place, "variant": "top_k_10", "sample": number, "response": shown})
    write_lines(folder / "said.jsonl", rows)
    return audit(responses=folder / "said.jsonl", out=folder / "audit", **MEASURES, quiet=True, replicates=20)


def test_extraction_is_a_probability_over_samples(tmp_path: Path, run: Callable[..., Any]) -> None:
    """By hand: of 4 samples with 1, 2, 0 hits, one sample hits with 1/4, 1/2, 0; all four with 1, 1, 0."""
    no = [False] * 4
    result = sampled(
        tmp_path,
        {
            "a": [[True, False, False, False]],
            "b": [[True, True, False, False]],
            "c": [no],
            # Two prompts, each with 1/4: 1 - (3/4) ** 2.
            "d": [[True, False, False, False], [False, True, False, False]],
            "e": [no],
        },
    )
    screen = result.first_screen()
    assert screen.answer == "0 of 5 patients can be extracted"
    rows = {row.samples: row for row in screen.samples}
    assert list(rows) == [1, 4]
    assert rows[1].chance == pytest.approx((1 / 4 + 1 / 2 + 7 / 16) / 5)
    assert (rows[1].discoverable, rows[4].discoverable) == (1, 3)
    assert rows[4].chance == pytest.approx(3 / 5)
    assert rows[4].low is not None
    assert rows[4].high is not None
    assert 0 < rows[4].low < 0.6 < rows[4].high
    text = " ".join(screen.sentences)
    assert "In 4 samples of every prompt (top_k_10), 3.0 of 5" in text
    assert "3 with a chance of a half or more; greedily, 0 are" in text
    shown = run("inspect", tmp_path / "audit").output
    assert re.search(r"1, greedy\s+0 of 5", shown)
    assert re.search(r"4, top_k_10\s+3\.0 of 5", shown)


def test_without_samples_nothing_is_said_of_chances(result: Audit) -> None:
    assert result.first_screen().samples == ()
    assert any("--decodings" in line for line in result.first_screen().missing)
