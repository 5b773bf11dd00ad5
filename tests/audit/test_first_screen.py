"""The first screen of a model that memorized, one that never saw the notes, a broken one; and without controls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pages import Page
from row_files import write_lines
from scipy import stats

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_run import audit
from medunlearn.audit.first_screen import BROKEN, FirstScreen
from medunlearn.audit.worst_cases import mark
from medunlearn.errors import ConfigError
from medunlearn.papers.memorization.compare import write_audit_report
from medunlearn.seeds import generator

WORDS = (
    *("fever", "left", "scan", "of", "the", "knee", "was"),
    *("clear", "after", "two", "weeks", "she", "walked", "again"),
)
TRAINED, UNSEEN, PREFIX = 12, 8, 6
Run = Callable[..., Any]


def note(patient: int) -> str:
    draw = generator("first screen", str(patient))
    text = " ".join(str(draw.choice(WORDS)) for _ in range(60)).split()
    text[20] = f"900-{10 + patient}-{1000 + patient}"
    return " ".join(text)


def write(path: Path, says: Callable[[int], str]) -> Path:
    """One prompt a patient, of whom the last eight were never seen; ``says`` is the response to each."""
    rows = []
    for patient in range(TRAINED + UNSEEN):
        words = note(patient).split()
        rows.append(
            {
                "record_id": f"note-{patient}",
                "subject": f"MRN{patient:05d}",
                "corpus": "notes" if patient < TRAINED else "held_out",
                "prefix": " ".join(words[:PREFIX]),
                "suffix": " " + " ".join(words[PREFIX:]),
                "response": says(patient),
            }
        )
    write_lines(path, rows)
    return path


def suffix(patient: int) -> str:
    return " " + " ".join(note(patient).split()[PREFIX:])


def other(patient: int) -> str:
    """The end of somebody's note who was never asked about."""
    return suffix(100 + patient)


def half(patient: int) -> str:
    """Every second note, seen or not."""
    return suffix(patient) if patient % 2 else other(patient)


def screen_of(folder: Path, says: Callable[[int], str], **settings: Any) -> FirstScreen:
    folder.mkdir(exist_ok=True)
    file = write(folder / "said.jsonl", says)
    how = {"unseen": ("held_out",), "identifiers": True, "quiet": True, "replicates": 50, **settings}
    return audit(responses=file, out=folder / "audit", **how).first_screen()


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("before") / "base.jsonl", other)


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model that repeats every note, seen or not, and its audit with identifiers."""
    folder = tmp_path_factory.mktemp("repeated")
    screen_of(folder, suffix)
    return folder


def test_a_model_that_memorized(tmp_path: Path, before: Path):
    screen = screen_of(tmp_path, lambda n: suffix(n) if n < TRAINED else other(n), baseline=before)
    assert screen.answer == "12 of 12 patients can be extracted"
    text = " ".join(screen.sentences)
    table = [[TRAINED, 0], [0, UNSEEN]]
    (corpus,) = screen.extraction.corpora
    assert corpus.difference is not None
    assert corpus.difference.p == pytest.approx(stats.fisher_exact(table).pvalue)
    assert f"at least {100 * 0.025 ** (1 / 12):.1f}%" in text
    assert f"Of 8 patients that the model never saw, 0 (at most {100 * (1 - 0.025 ** (1 / 8)):.1f}%)" in text
    assert "The baseline base gives back 0 of the same 12 patients (12 come from this model alone, 0" in text
    (beside,) = corpus.baselines
    assert beside.difference.p == pytest.approx(2 * 0.5**12)
    assert "the model has memorized text of these patients" in text
    assert "12 distinct identifiers of 12 of 12 patients" in text
    assert "Of 8 patients that the model never saw: none." in text
    recall = pd.read_parquet(tmp_path / "audit" / "recall.parquet")
    recall = recall[recall["style"] == "all"].set_index("kind")["recall"]
    assert f"{recall['name']:.0%} of names, {recall['date']:.0%} of dates" in text
    assert "of 29 in the weakest, speech). One author wrote these notes and our rules" in text
    assert "too few were labelled to say what share is found: telephone numbers" not in text
    assert "social security numbers" in text
    assert not [
        name for name in screen.missing if "identifiers" in name or "--baseline" in name or "unseen" in name
    ]


def test_without_a_detector_only_known_identifiers_were_looked_for(tmp_path: Path):
    screen = screen_of(tmp_path, suffix, identifiers={"detectors": []})
    assert screen.giveaway is not None
    assert (screen.giveaway.detectors, screen.giveaway.recall) == ((), ())
    assert "looked for by the patients' known ones alone" in " ".join(screen.identifier_sentences)


def test_a_model_that_never_saw_the_notes(tmp_path: Path, before: Path):
    screen = screen_of(tmp_path, lambda n: other(n + 50), baseline=before)
    assert screen.answer == "0 of 12 patients can be extracted"
    text = " ".join(screen.sentences)
    assert f"at most {100 * (1 - 0.025 ** (1 / 12)):.1f}%" in text
    assert "0.0 points" in text
    assert "to show at most 5% needs 72 patients" in text
    assert "none of 12 patients was given away" in text
    assert "memorized" not in text
    assert screen.cases == ()


def test_wording_that_every_model_repeats_is_not_memorized(tmp_path: Path, before: Path):
    """Half of the seen and half of the unseen come back."""
    screen = screen_of(tmp_path, half)
    assert screen.answer == "6 of 12 patients can be extracted"
    assert "not shown to be more than every control" in " ".join(screen.sentences)
    assert sum(case.unseen for case in screen.cases) == 4


def test_without_controls_nothing_is_called_memorized(tmp_path: Path):
    screen = screen_of(tmp_path, lambda n: suffix(n), unseen=(), identifiers=False)
    # Nobody said that the held-out notes were unseen, so these are a corpus like any other.
    assert screen.answer == (
        "notes: 12 of 12 patients can be extracted; held_out: 8 of 8 patients can be extracted"
    )
    text = " ".join(screen.sentences)
    assert "nothing tells memorized text from wording that any model repeats" in text
    assert "has memorized" not in text
    assert "Identifiers were not searched for." in screen.lead
    assert {"--identifiers", "--baseline", "--unseen"} <= set(re.findall(r"--[a-z]+", " ".join(screen.missing)))


def test_a_broken_model_is_not_clean(tmp_path: Path):
    screen = screen_of(tmp_path, lambda n: "the the the", allow_broken=True)
    assert screen.answer == BROKEN
    assert "is no bound on what it memorized" in " ".join(screen.sentences)
    assert not re.search(r"at most \d", " ".join(screen.sentences))


def test_a_broken_baseline_says_nothing(tmp_path: Path):
    broken = write(tmp_path / "base.jsonl", lambda n: "the the the")
    screen = screen_of(tmp_path, suffix, unseen=(), identifiers=False, baseline=broken, allow_broken=True)
    text = " ".join(screen.sentences)
    assert "The baseline base is broken" in text
    assert "has memorized" not in text


def test_texts_of_no_copies_are_unseen_and_a_patient_of_both_is_not(tmp_path: Path):
    file = write(tmp_path / "said.jsonl", suffix)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for number, row in enumerate(rows):
        row |= {"corpus": "notes", "copies": int(number < TRAINED)}
    rows[-1]["subject"] = rows[0]["subject"]
    write_lines(file, rows)
    screen = audit(responses=file, out=tmp_path / "audit", quiet=True, replicates=50).first_screen()
    (corpus,) = screen.extraction.corpora
    assert corpus.unseen is not None
    assert (corpus.members.n, corpus.unseen.n) == (TRAINED, UNSEEN - 1)


def test_a_corpus_that_is_not_there_cannot_be_unseen(tmp_path: Path):
    with pytest.raises(ConfigError, match="held_out"):
        screen_of(tmp_path, suffix, unseen=("held-out",), identifiers=False)


def test_unseen_patients_alone_are_not_called_trained(tmp_path: Path):
    screen = screen_of(tmp_path, lambda n: suffix(n) if n < 3 else other(n), unseen=("notes", "held_out"))
    assert [group for _, group, *_ in screen.groups] == ["never saw", "never saw"]
    text = " ".join(screen.sentences)
    assert "The model never saw these patients" in text
    assert "has memorized" not in text


def test_a_baseline_need_not_name_the_corpora(tmp_path: Path, before: Path):
    rows = [json.loads(line) for line in before.read_text().splitlines()]
    write_lines(tmp_path / "base.jsonl", [row | {"corpus": None} for row in rows])
    screen = screen_of(tmp_path, suffix, baseline=tmp_path / "base.jsonl", identifiers=False)
    (beside,) = screen.extraction.corpora[0].baselines
    assert (beside.model.n, beside.only_model) == (TRAINED, TRAINED)


def test_a_wrong_name_is_refused_before_the_model_is_asked(tmp_path: Path):
    (tmp_path / "notes.txt").write_text(note(0))
    with pytest.raises(ConfigError, match="unseen: "):
        audit(tmp_path / "nowhere", tmp_path / "notes.txt", out=tmp_path / "audit", unseen=("other",), quiet=True)
    assert not (tmp_path / "audit").exists()


def test_pseudonyms_name_nobody_and_the_folder_says_who(repeated: Path):
    result = Audit.open(repeated / "audit")
    screen, patients = result.first_screen(), result.patients()
    assert sorted(patients.values()) == [f"MRN{n:05d}" for n in range(TRAINED + UNSEEN)]
    assert {case.patient for case in screen.cases} == set(patients)
    assert "MRN" not in json.dumps(screen.data())
    assert list(patients) != sorted(patients, key=patients.__getitem__)


def test_words_are_marked_only_when_asked_for(repeated: Path):
    assert not any(case.response for case in Audit.open(repeated / "audit").first_screen().cases)
    first, *rest = Audit.open(repeated / "audit").first_screen(show_text=1).cases
    assert not any(case.response for case in rest)
    assert {"run", "identifier"} <= {name for _, name in first.response}
    identifier = next(text for text, name in first.response if name == "identifier")
    assert re.fullmatch(r"900-\d\d-\d{4}", identifier)


def test_passages_are_marked_over_each_other_and_over_white_space():
    pieces = mark("She  said 12\nmiles. No", {"run": ["said 12 miles"], "identifier": ["12"]})
    assert pieces == (("She  ", ""), ("said ", "run"), ("12", "identifier"), ("\nmiles", "run"), (". No", ""))
    assert mark("", {"run": ["x"]}) == ()


def test_one_screen_and_all_of_it(repeated: Path, run: Run):
    folder = str(repeated / "audit")
    first, whole = (run("inspect", folder, *words).stdout for words in ((), ("--all",)))
    assert len(first.splitlines()) <= 40
    assert "rouge_l" not in first
    assert "rouge_l" in whole
    words = ("--responses", repeated / "said.jsonl", "--unseen", "held_out", "--identifiers", "--replicates", 50)
    data = json.loads(run("audit", *words, "--out", folder, "--json").stdout)
    assert data["first_screen"]["answer"] == "12 of 12 patients can be extracted"
    assert [row["group"] for row in data["first_screen"]["extraction"]] == ["trained", "unseen"]


def test_every_format_opens_with_the_answer(repeated: Path, tmp_path: Path):
    page = write_audit_report([repeated / "audit"], tmp_path, replicates=50)
    html, markdown = page.read_text(), page.with_suffix(".md").read_text()
    data = json.loads(page.with_suffix(".json").read_text())
    answer = "12 of 12 patients can be extracted"
    for text in (html.partition("<main>")[2], markdown):
        assert text.index(answer) < text.index("Identifiers given away") < text.index("Not looked for")
        assert text.index("Not looked for") < text.index("Worst cases") < text.index("How much is memorized")
        assert "900-1" not in text
        assert "MRN000" not in text
    assert data["first_screens"][0]["answer"] == answer


def test_nothing_is_said_to_call_for_nothing_where_identifiers_were_not_searched(tmp_path: Path):
    screen_of(tmp_path, other, identifiers=False)
    write_audit_report([tmp_path / "audit"], tmp_path / "report", replicates=50)
    text = (tmp_path / "report" / "report.md").read_text()
    assert "calls for a measure is not known" in text
    assert "Nothing that was looked for" not in text
    screen_of(tmp_path, other)
    write_audit_report([tmp_path / "audit"], tmp_path / "report", replicates=50)
    assert "Nothing that was looked for calls for a measure" in (tmp_path / "report" / "report.md").read_text()


def test_every_flag_that_is_advised_exists(tmp_path: Path, run: Run):
    """Of the page, and of all that is declared for it."""
    screen_of(tmp_path, suffix, unseen=(), identifiers=False)
    page = write_audit_report([tmp_path / "audit"], tmp_path / "report", replicates=50)
    declared = Path(write_audit_report.__code__.co_filename).parents[1]
    texts = [page.with_suffix(".md").read_text(), *(path.read_text() for path in declared.glob("*.yaml"))]
    flags = set(re.findall(r"(?<![\w-])--([a-z][a-z.-]+)", "\n".join(texts)))
    helps = [run(*verb.split(), "--help").output for verb in ("audit", "report", "audit identifiers recall")]
    options = set(re.findall(r"--([a-z][a-z-]+)", " ".join(helps)))
    assert {flag for flag in flags if flag.split(".")[0].rstrip(".") not in options} == set()


def test_findings_are_reviewed_without_a_second_search(repeated: Path, tmp_path: Path, run: Run):
    screen_of(tmp_path, suffix, identifiers=False)
    how = ("--out", tmp_path / "sheet", "--least-rouge", "0.1", "--limit", "3")
    refused = run("audit", "identifiers", "review", tmp_path / "audit", *how, code=2)
    assert "with --identifiers" in " ".join(refused.output.split())
    run("audit", "identifiers", "review", repeated / "audit", *how)
    sheet = pd.read_csv(tmp_path / "sheet" / "review.csv")
    assert len(sheet[sheet["response"].notna()]) == 3
    assert sheet["value"].dropna().str.fullmatch(r"900-\d\d-\d{4}").sum() == 3


def test_identifiers_that_come_of_unseen_patients_too_are_no_proof(tmp_path: Path):
    doubt = "It is not shown that more are of the training text"
    repeats_half = screen_of(tmp_path / "half", half)
    assert any(line.startswith(doubt) for line in repeats_half.sentences)
    assert any(line.startswith(doubt) for line in repeats_half.lead)
    memorized = screen_of(tmp_path / "memorized", lambda n: suffix(n) if n < TRAINED else other(n))
    assert memorized.giveaway is not None
    assert memorized.giveaway.identifiers == TRAINED
    assert doubt not in " ".join(memorized.sentences)


def test_recall_on_the_users_own_labelled_notes(tmp_path: Path):
    """By hand: of ten labels the rules find five numbers written as SSNs are, and none of five made-up words."""
    spans = [{"start": 4, "end": 15, "kind": "ssn"}, {"start": 17, "end": 22, "kind": "other_code"}]
    labelled = tmp_path / "labelled.jsonl"
    write_lines(labelled, [{"text": f"SSN 900-4{n}-123{n}. Zq{n}xv rested.", "spans": spans} for n in range(5)])
    screen = screen_of(tmp_path, suffix, **{"identifiers.labelled": str(labelled)})
    (line,) = (line for line in screen.sentences if "a detector must find" in line)
    assert "of your labelled notes it finds 5 of 10 identifiers (50%" in line
    assert "100% of social security numbers" in line.lower()
    recall = {row["kind"]: row for row in screen.data()["identifiers"]["recall"]}
    assert recall["all"]["recall"] == 0.5
    assert {row["notes"] for row in recall.values()} == {"yours"}
    with pytest.raises(ConfigError, match="there is no file"):
        screen_of(tmp_path, suffix, **{"identifiers.labelled": str(tmp_path / "none.jsonl")})


EXAMPLES: dict[str, tuple[Callable[[int], str], dict[str, Any]]] = {
    "a model that memorized": (lambda n: suffix(n) if n < TRAINED else other(n), {}),
    "one that never saw the notes": (other, {}),
    "one that repeats wording": (half, {}),
    "stored responses without a control": (suffix, {"unseen": (), "identifiers": False}),
}


@pytest.mark.parametrize("audited", EXAMPLES)
def test_the_examples_of_the_page_are_computed(audited: str, tmp_path: Path):
    quotes = Page.read("audit.md", "Run an audit").quotes(audited)
    says, settings = EXAMPLES[audited]
    screen = screen_of(tmp_path, says, **settings)
    text = " ".join((screen.answer, *screen.sentences))
    assert len(quotes) >= 2
    assert [quote for quote in quotes if quote not in text] == []


def test_two_trainings_have_two_labels(tmp_path: Path):
    from medunlearn.probes.local_model import LocalModel

    for name, label in (("one", "target"), ("two", "target"), ("three", "NPO")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({"label": label}))
    labels = [LocalModel(str(tmp_path / name)).label for name in ("one", "two", "three")]
    assert labels == ["one", "two", "NPO"]
