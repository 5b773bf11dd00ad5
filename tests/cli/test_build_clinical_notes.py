"""``build notes`` from the command line, and every verb on what it builds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer

from medunlearn.cli.command import Generated
from medunlearn.cli.verbs import verbs
from medunlearn.data.benchmark import Benchmark
from medunlearn.synthetic import invent_hospital

Medunlearn = Callable[..., Any]
TINY = ("--tiny-width=32", "--tiny-layers=2", "--epochs=1", "--max-length=512", "--quiet")
SAY = "Write the note: of {name}, {complaint}."


def table(path: Path, count: int, seed: int, prefix: str) -> Path:
    hospital = invent_hospital(count, seed=seed)
    notes = {record.groups["patient"]: record.text for record in hospital.records()}
    lines = [
        f'{prefix}{p.patient_id},{p.name},{p.disease},{p.case.condition},"{notes[p.patient_id]}"\n'
        for p in hospital.patients
    ]
    path.write_text("patient_id,name,disease,complaint,note\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def built(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("built")
    notes, unseen = table(root / "notes.csv", 16, 1, "a-"), table(root / "unseen.csv", 8, 2, "b-")
    with notes.open("a") as file:
        file.write("a-patient-0001,,,,\n")
    words = ("--prompt", SAY, "--prompt", "{name}, in short:", "--forget-patients", "a-patient-0003")
    result = medunlearn(
        "build", "notes", notes, "--holdout", unseen, *words, "--clozes", 2, "--out", root / "bench"
    )
    assert "24 records, 24 subjects" in result.text
    assert "left out: 1 notes without text" in result.text
    assert "patient-0" not in result.text
    return root


def test_the_folder(built: Path) -> None:
    bench = Benchmark.load(built / "bench")
    assert bench.data_use == "credentialed"
    assert {"request", "random_05", "random_10", "random_25"} == set(bench.splits)
    prompts = {q.question for q in bench.questions if q.kind == "generation" and q.fold == "train"}
    assert all(prompt.startswith("Write the note: of ") for prompt in prompts)
    assert len(prompts) == 16
    for path in (built / "bench", *(built / "bench").iterdir()):
        assert path.stat().st_mode & 0o077 == 0


def test_a_flag_that_is_given_again_keeps_its_commas() -> None:
    values, problems = Generated(verbs()[("build", "notes")]).read(
        ["n.csv", "--out=x", "--prompt", SAY, "--prompt={a}", "--forget-patients", "0047"]
    )
    assert (problems, values["prompt"], values["forget_patients"]) == ([], [SAY, "{a}"], "0047")


def test_again_it_is_the_same_and_other_settings_are_refused(medunlearn: Medunlearn, built: Path) -> None:
    words = ("build", "notes", built / "notes.csv", "--out", built / "again")
    medunlearn(*words)
    before = (built / "again" / "questions.parquet").read_bytes()
    medunlearn(*words)
    assert (built / "again" / "questions.parquet").read_bytes() == before
    assert "contains another benchmark" in medunlearn(*words, "--seed", 3, code=2).text


def test_it_is_trained_on_unlearned_evaluated_attacked_and_reported(
    medunlearn: Medunlearn, built: Path, tmp_path: Path
) -> None:
    bench, target, forgot = built / "bench", tmp_path / "target", tmp_path / "npo"
    medunlearn("train", bench, "--model=tiny", "--train-on=records", "--out", target, *TINY)
    medunlearn(
        "unlearn", target, bench, "--split=request", "--method=npo", "--epochs=1", "--out", forgot, "--quiet"
    )
    ask = ("--limit=1", "--max-new-tokens=2", "--replicates=20", "--allow-broken", "--quiet")
    folds = ("--folds=train,holdout,rephrase,utility", "--metrics=default,ranked_first", "--alternatives=9")
    medunlearn("evaluate", forgot, bench, "--split=request", "--against", target, *folds, *ask)
    attack = ("--attacks=loss", "--replicates=20", "--quiet")
    result = medunlearn("attack", target, bench, "--split=random_25", *attack[:-1])
    assert "4 members, 8 non-members" in " ".join(result.stdout.split())
    medunlearn("report", target, forgot, "--benchmark", bench, "--out", tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    assert "a-patient" not in page
    assert "Notes of 16 patients" in page


def test_wrong_words(medunlearn: Medunlearn, built: Path, tmp_path: Path) -> None:
    words = ("build", "notes", built / "notes.csv", "--out", tmp_path / "x")
    result = medunlearn(*words, "--prompt", "Of {nam}", "--text-column", "txt", "--prefixes", "0", code=2).text
    assert "prefixes" in result
    result = medunlearn(*words, "--prompt", "Of {nam}", "--text-column", "txt", code=2).text
    assert all(
        part in result for part in ("2 settings are wrong", "--text-column: There is no column 'txt'", "'name'")
    )
    assert (
        "There is no patient 'a-patient-0099' in the notes."
        in medunlearn(*words, "--forget-patients", "a-patient-0099", code=2).text
    )
    assert not (tmp_path / "x").exists()


def clinical(path: Path, own_notes: Any) -> Path:
    lines = [f'p{n},"{row["text"]}"\n' for n, row in enumerate(own_notes(6))]
    path.write_text("patient_id,note\n" + "".join(lines))
    return path


def test_questions_of_a_language_model_come_on_top(
    medunlearn: Medunlearn, own_notes: Any, canned: Any, server_flags: Any, tmp_path: Path
) -> None:
    """A note whose questions are rejected keeps its own probes; given again, nothing is sent."""
    file, out = clinical(tmp_path / "n.csv", own_notes), tmp_path / "b"
    file.write_text(file.read_text().replace("Pain of grade 2", "PAIN of grade 2"))

    def answer(body: dict[str, Any]) -> str:
        return "no idea" if "PAIN" in str(body["messages"][1]) else str(canned(body))

    with FakeServer(answer=answer) as server:
        words = ("build", "notes", file, *server_flags(server), "--llm.corrections=0", "--out", out)
        dry = medunlearn(*words, "--dry-run")
        assert server.count == 0
        assert "amnesia_questions" in dry.text
        assert not out.exists()
        result = medunlearn(*words)
        assert server.count == 6
        assert "1 were left out" in result.text
        bench = Benchmark.load(out)
        kinds = {record.record_id: {q.kind for q in bench.questions if q.record_id == record.record_id}
                 for record in bench.records}  # fmt: skip
        assert [("factual" in kinds[f"note-{n}"]) for n in range(1, 7)] == [True, True, False, True, True, True]
        assert all("completion" in kinds[name] for name in kinds)
        by_server = [q for q in bench.questions if q.kind in ("factual", "reasoning")]
        assert len(by_server) == 40
        assert all(
            q.question.startswith('About the patient whose note begins with "This report') for q in by_server
        )
        assert sum(q.fold == "holdout" for q in by_server) == 10
        assert "0 requests sent now" in medunlearn(*words).text
        assert server.count == 6
    assert (out / "evidence.parquet").exists()
    assert (out / "build.json").stat().st_mode & 0o077 == 0


def test_notes_stay_on_this_machine(medunlearn: Medunlearn, own_notes: Any, tmp_path: Path) -> None:
    file = clinical(tmp_path / "n.csv", own_notes)
    with FakeServer() as server:
        away = server.base_url.replace("127.0.0.1", "127.1")
        words = ("build", "notes", file, "--llm", away, "--llm.model", "m", "--out", tmp_path / "b")
        assert "--allow-remote-llm" in medunlearn(*words, code=2).text
        assert server.count == 0
    assert not (tmp_path / "b").exists()
