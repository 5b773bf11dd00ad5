"""``data_use`` travels with everything made from the data, and no verb loosens it: a table of verbs and sources.

The server is asked as ``127.1``: the guard takes that for another machine, and a connection would reach it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from fake_server import FakeServer
from row_files import write_lines

import medunlearn as mu
from medunlearn.audit.options.option_audit import audit_options
from medunlearn.config import TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import build_use, recorded_use, resolve_use, tighter_record, tightest, use_of_file
from medunlearn.errors import ConfigError, InputError
from medunlearn.llm import decide
from medunlearn.models.ancestry import model_use
from medunlearn.papers.amnesia.build import build
from medunlearn.results.runs import Recording

Medunlearn = Callable[..., Any]
TINY = ("--tiny-width=16", "--tiny-layers=1", "--epochs=1", "--pretrain-epochs=0", "--max-length=512", "--quiet")
ASK = ("--split=random_25", "--limit=1", "--folds=train", "--max-new-tokens=2", "--replicates=20", "--quiet",
       "--allow-broken")  # fmt: skip
TEXT = "Part one. The dose is 5 mg orally twice daily; it is contraindicated in renal impairment. " * 3


def test_the_rule() -> None:
    assert [tightest(uses) for uses in ([], ["open"], ["open", None], ["open", None, "credentialed"])] == [
        None, "open", None, "credentialed",
    ]  # fmt: skip
    records = [("open", None), (None, "open"), (None, None), ("credentialed", "open"), ("open", "credentialed")]
    assert [tighter_record(*pair) for pair in records] == ["open", "open", None, "credentialed", "credentialed"]
    assert tightest(["open", "public"]) is None  # type: ignore[list-item]
    assert not decide("http://gpu7:8000/v1", data_use="public").allowed  # type: ignore[arg-type]
    assert resolve_use(None, {"a": "open", "b": None}) is None
    assert build_use(None, {"a": None}) == "credentialed"
    assert resolve_use("open", {"a": None}) == "open"
    assert resolve_use("credentialed", {"a": "open"}) == "credentialed"
    with pytest.raises(ConfigError, match="recorded as credentialed: run x, corpus y"):
        resolve_use("open", {"run x": "credentialed", "b": "open", "corpus y": "credentialed"})
    unknown = decide("http://gpu7:8000/v1", data_use=None)
    assert not unknown.allowed
    assert "nobody says that the data is open" in unknown.reason
    assert Benchmark.__dataclass_fields__["data_use"].default == "credentialed"


@pytest.fixture(scope="module", autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def say(folder: Path, use: str | None, name: str = "run.json") -> Path:
    """Edit the record in a folder."""
    file = folder / name
    content = yaml.safe_load(file.read_text())
    content["data_use"] = use
    file.write_text(json.dumps(content) if name.endswith("json") else yaml.safe_dump(content, sort_keys=False))
    return folder


def rows(path: Path, *content: dict[str, Any]) -> Path:
    write_lines(path, content)
    return path


@pytest.fixture(scope="module")
def house(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In ``open/`` and ``closed/`` the same: bench, run, audit, and tables, which are in the folder of the bench.

    No record names its identifiers, so that the data use alone decides.
    """
    root = tmp_path_factory.mktemp("house")
    built = build(check_amnesia())
    records = tuple(replace(record, identifiers=()) for record in built.records)
    titles = {record.record_id: "A mass" for record in records}
    benchmark = replace(built, records=records, titles=titles)
    for use in ("open", "closed"):
        bench = replace(benchmark, data_use="open" if use == "open" else "credentialed").save(root / use / "bench")
        words = {"text": TEXT, "title": "Fever", "id": "n1"}
        rows(bench / "notes.jsonl", words, {**words, "id": "n2"})
        rows(bench / "articles.jsonl", {"title": "A life", "text": TEXT * 8})
        rows(bench / "choices.jsonl", *(choice(n) for n in range(4)))
        rows(bench / "asked.jsonl", {"question_id": "q0", "response": "bone"})
        rows(bench / "judged.jsonl", {"case_id": "1", "title": "A mass", "category": "Cancer"})
        record = records[0]
        message = {"record_id": record.record_id, "prefix": record.text[:40], "suffix": record.text[40:]}
        rows(bench / "said.jsonl", {**message, "response": record.text[40:]})
        (bench / "films.csv").write_text("patient,study,image,report\n" + "".join(map(film, range(4))))
        stay = {
            "admission": "a",
            "hpi": "Cough.",
            "labs": "Na 140",
            "diagnoses": "asthma",
            "specialty": "chest",
        }
        rows(bench / "stays.jsonl", *({**stay, "id": f"s{n}", "patient": f"p{n}"} for n in range(20)))
    first = root / "open" / "bench"
    medunlearn("train", first, "--model=tiny", "--out", root / "open" / "run", *TINY)
    medunlearn("evaluate", root / "open" / "run", first, *ASK)
    stated = ("--data-use=open", "--replicates=20", "--quiet")
    medunlearn("audit", "--responses", first / "said.jsonl", "--out", root / "open" / "audit", *stated)
    for name in ("run", "audit"):
        say(Path(shutil.copytree(root / "open" / name, root / "closed" / name)), "credentialed")
    return root


def check_amnesia() -> Any:
    from medunlearn.papers.amnesia.settings import AmnesiaSettings

    values = {"synthetic": 12, "institutions": 1, "percents": [25], "nonmember_patients": 3}
    return check(AmnesiaSettings, values)


def choice(number: int) -> dict[str, Any]:
    options = {"A": "bone", "B": "lung", "C": "heart", "D": "skin"}
    return {"id": f"q{number}", "question": f"What is {number}?", "options": options, "answer_idx": "B"}


def film(number: int) -> str:
    report = " ".join(
        f"{name}: {name} {number}." for name in ("EXAMINATION", "INDICATION", "FINDINGS", "IMPRESSION")
    )
    return f'p{number},s{number},,"{report}"\n'


LLM = "--llm SERVER --llm.model m --llm.retries 0 --llm.corrections 0 --llm.backoff-seconds 0.01 --out OUT"
BARE = LLM.replace(" --out OUT", "")
RATE = f"{BARE} --allow-broken"
MEDFORGET = "build medforget --folder USE/bench/films.csv --text-only --institutions 1 --patients 2 --studies 1"
AUDITED = "--model-name m --prefixes 8 --shortest-suffix 8 --max-new-tokens 30 --limit 2 --llm.retries 0"
SENDING = {
    "build amnesia, notes": f"build amnesia USE/bench/notes.jsonl --data-use STATED {LLM}",
    "build lume, articles": f"build lume --synthetic 4 --articles USE/bench/articles.jsonl --data-use STATED {LLM}",
    "build medforget, table": f"{MEDFORGET} --data-use STATED {LLM}",
    "judge, benchmark": f"judge USE/bench --task label {LLM}",
    "judge, questions": f"judge USE/bench --task question --limit 1 {LLM}",
    "judge, run": f"judge USE/run --benchmark open/bench {RATE}",
    "judge, benchmark of a run": f"judge open/run --benchmark USE/bench {RATE}",
    "audit, corpus": f"audit SERVER USE/bench --data-use STATED {AUDITED} --out OUT",
    "audit, table in a benchmark's folder": f"audit SERVER USE/bench/records.parquet --data-use STATED {AUDITED} "
    "--out OUT",
    "audit, options": f"audit SERVER open/bench --data-use open {AUDITED} --options USE/bench/choices.jsonl "
    "--options.data_use STATED --out OUT",
    "identifiers, audit": f"audit identifiers find USE/audit --records open/bench {LLM}",
    "identifiers, benchmark": f"audit identifiers find open/audit --records USE/bench {LLM}",
    "kinds, audit": f"audit kinds find USE/audit {BARE}",
}
"""Verb and source -> words that would send its text: of ``open/`` they do, of ``closed/`` nothing leaves."""
NAMED = ("judge, benchmark", "judge, questions")
KEEPING = {
    "build options, file": "build options USE/bench/choices.jsonl --data-use open --percents 50 --out OUT",
    "build diagnosis, file": "build diagnosis USE/bench/stays.jsonl --data-use open --out OUT",
    "build medforget, table": f"{MEDFORGET} --data-use open --out OUT",
    "audit, run": "audit USE/run open/bench --data-use open --prefixes 8 --max-new-tokens 30 --limit 1 --out OUT",
    "audit, model of a run": "audit USE/run/model open/bench --data-use open --prefixes 8 --max-new-tokens 30 "
    "--limit 1 --out OUT",
    "audit, responses": "audit --responses USE/bench/said.jsonl --data-use open --out OUT",
    "audit, given again": "audit --responses open/bench/said.jsonl --data-use open --replicates 20 --out USE/audit",
}
"""Verb and source -> words that state ``open``; nothing is sent by them. Of ``open/`` they are done."""


def run_words(house: Path, out: Path, words: str, use: str, url: str = "", stated: str = "open") -> Any:
    from medunlearn.cli.main import app

    filled = words.replace("SERVER", url).replace("STATED", stated).replace("OUT", str(out)).split()
    places = [str(house / use / w[4:]) if w.startswith("USE/") else w for w in filled]
    places = [str(house / w) if w.startswith(("open/", "closed/")) else w for w in places]
    return CliRunner().invoke(app, places)


@pytest.mark.parametrize("verb", SENDING)
def test_nothing_leaves_of_credentialed_sources(house: Path, tmp_path: Path, verb: str) -> None:
    words = SENDING[verb]
    if " --out OUT" not in words:  # it writes into the run
        house = Path(shutil.copytree(house, tmp_path / "house"))
    with FakeServer() as server:
        away = server.base_url.replace("127.0.0.1", "127.1")
        result = run_words(house, tmp_path / "out", words, "closed", away)
        message = " ".join(result.stderr.split())
        assert (result.exit_code, server.count) == (2, 0), message
        assert ("recorded as credentialed" if "STATED" in words else "the data is credentialed") in message
        if "STATED" in words:
            # Nor without a word.
            plain = words.replace("--data-use STATED", "").replace("--options.data_use STATED", "")
            result = run_words(house, tmp_path / "out", plain, "closed", away)
            assert (result.exit_code, server.count) == (2, 0)
            # An open one may be called credentialed.
            result = run_words(house, tmp_path / "tight", words, "open", away, "credentialed")
            assert (result.exit_code, server.count) == (2, 0), " ".join(result.stderr.split())
            assert "--allow-remote-llm" in result.stderr
        # The address reaches the server: open text goes there.
        # (where nobody said which identifiers a response has, with the flag).
        flag = "" if verb.startswith(("build", "audit")) or verb in NAMED else " --allow-remote-llm"
        result = run_words(house, tmp_path / "open", words + flag, "open", away)
        assert server.count > 0, " ".join(result.stderr.split())


@pytest.mark.parametrize("verb", KEEPING)
def test_no_setting_loosens(house: Path, tmp_path: Path, verb: str) -> None:
    result = run_words(house, tmp_path / "out", KEEPING[verb], "closed")
    assert result.exit_code == 2
    assert "recorded as credentialed" in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()
    result = run_words(house, tmp_path / "out", KEEPING[verb], "open")
    assert result.exit_code == 0, result.stderr
    if "OUT" in KEEPING[verb]:
        assert recorded_use(tmp_path / "out") == "open"


def test_options_in_python(house: Path, tmp_path: Path) -> None:
    file, closed = house / "open" / "bench" / "choices.jsonl", house / "closed"
    with FakeServer() as server:
        llm = {"base_url": server.base_url.replace("127.0.0.1", "127.1"), "model": "m", "retries": 0}
        for how in (
            {"model": None, "llm": llm, "trained_on": closed / "bench"},
            {"model": closed / "run"},
            {"model": None, "responses": closed / "bench" / "asked.jsonl"},
        ):
            with pytest.raises(ConfigError, match="recorded as credentialed"):
                audit_options(file=file, out=tmp_path / "o", data_use="open", quiet=True, **how)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="--allow-remote-llm"):
            audit_options(None, file, out=tmp_path / "o", llm=llm, quiet=True)
        assert server.count == 0


@pytest.mark.parametrize("verb", ["run", "sweep", "tune"])
def test_sections_of_a_file_do_not_loosen(medunlearn: Medunlearn, house: Path, tmp_path: Path, verb: str) -> None:
    choices = house / "closed" / "bench" / "choices.jsonl"
    for benchmark, part in (
        ({"builder": "options", "file": str(choices), "data_use": "open"}, "recorded as credentialed"),
        ({"folder": str(house / "closed" / "bench"), "data_use": "open"}, "give only folder"),
    ):
        values = {"name": "x", "benchmark": benchmark, "train": {"model": "tiny"}, "out": str(tmp_path / "runs")}
        values |= {"splits": ["random_50"]} if verb == "sweep" else {"split": "random_50"}
        values |= {"runs": 1} if verb == "tune" else {}
        file = tmp_path / "x.yaml"
        file.write_text(yaml.safe_dump({**values, "unlearn": {"methods": ["ga"]}}))
        assert part in medunlearn(verb, file, "--quiet", code=2).text
        file.write_text(
            yaml.safe_dump({**values, "unlearn": {"methods": ["ga"]}, "evaluate": {"data_use": "open"}})
        )
        assert "data_use" in medunlearn(verb, file, "--quiet", code=2).text


def test_a_mixed_corpus_is_credentialed(medunlearn: Medunlearn, house: Path, tmp_path: Path) -> None:
    how = ("--prefixes=8", "--max-new-tokens=30", "--limit=1", "--replicates=20", "--quiet")
    corpora = (f"a={house / 'open' / 'bench'}", f"b={house / 'closed' / 'bench'}")
    medunlearn("audit", house / "open" / "run", *corpora, "--out", tmp_path / "mixed", *how)
    assert recorded_use(tmp_path / "mixed") == "credentialed"
    medunlearn("audit", house / "open" / "run", corpora[0], "--out", tmp_path / "one", *how)
    assert recorded_use(tmp_path / "one") == "open"
    medunlearn("audit", house / "closed" / "run", corpora[0], "--out", tmp_path / "model", "--label=other", *how)
    assert [recorded_use(tmp_path / "model" / part) for part in ("", "responses")] == ["credentialed"] * 2
    medunlearn("report", tmp_path / "one", tmp_path / "model", "--out", tmp_path / "report", "--quiet")
    assert json.loads((tmp_path / "report" / "report.json").read_text())["data_use"] == "credentialed"


def records_below(folder: Path) -> dict[str, str | None]:
    """Every folder with a record -> what it says."""
    names = ("run.json", "settings.json", "lineage.json")
    places = sorted({path.parent for name in names for path in folder.rglob(name)})
    return {str(place.relative_to(folder)): recorded_use(place) for place in places}


@pytest.fixture(scope="module")
def trained(medunlearn: Medunlearn, house: Path) -> Path:
    """What comes of a credentialed benchmark: a run that is watched, unlearned, asked, attacked and reported."""
    closed = house / "closed"
    watched = ("--evaluate-every=1", "--keep-epochs", "--evaluate.split=random_25", "--evaluate.limit=1")
    watched += ("--evaluate.max-new-tokens=2", "--evaluate.replicates=20")
    medunlearn("train", closed / "bench", "--model=tiny", "--out", closed / "trained", *TINY, *watched)
    out = closed / "unlearned"
    words = ("--split=random_25", "--method=ga", "--epochs=1", "--trainable=layers:0", "--quiet", *watched)
    # The target's data is credentialed, whatever the benchmark says now.
    medunlearn("unlearn", closed / "trained", house / "open" / "bench", "--out", out, *words)
    medunlearn("evaluate", out, house / "open" / "bench", *ASK, "--against", closed / "trained")
    attack = ("--split=random_25", "--attacks=loss", "--replicates=20", "--quiet")
    medunlearn("attack", out, house / "open" / "bench", *attack)
    medunlearn("report", out, closed / "trained", "--out", closed / "report", "--quiet")
    medunlearn("export", out, "--out", closed / "hf", "--quiet")
    return closed


def test_it_travels(trained: Path) -> None:
    below = {name: records_below(trained / name) for name in ("trained", "unlearned")}
    assert {use for records in below.values() for use in records.values()} == {"credentialed"}
    kinds = {part for records in below.values() for place in records for part in Path(place).parts}
    assert {"model", "epochs", "responses", "evaluations", "attacks"} <= kinds
    assert "epochs/01/model" in below["trained"]
    page = (trained / "report" / "report.html").read_text()
    assert "data use: credentialed" in page
    assert json.loads((trained / "report" / "report.json").read_text())["benchmark"]["data_use"] == "credentialed"
    assert recorded_use(trained / "hf") == "credentialed"
    assert "**credentialed**" in (trained / "hf" / "README.md").read_text()
    # A folder that is copied by itself brings its record; one without is unknown.
    assert model_use(trained / "unlearned" / "model") == "credentialed"


def test_a_model_trained_from_a_run_inherits(medunlearn: Medunlearn, house: Path, tmp_path: Path) -> None:
    out = tmp_path / "more"
    words = ("--epochs=1", "--pretrain-epochs=0", "--max-length=512", "--quiet")
    medunlearn("train", house / "open" / "bench", "--model", house / "closed" / "run", "--out", out, *words)
    assert [recorded_use(out), recorded_use(out / "model")] == ["credentialed"] * 2
    # A folder that nobody recorded, with open data: unknown.
    plain = Path(shutil.copytree(house / "open" / "run" / "model", tmp_path / "plain"))
    (plain / "lineage.json").unlink()
    assert [model_use(plain), model_use("org/name"), model_use("tiny")] == [None, None, "open"]
    medunlearn("train", house / "open" / "bench", "--model", plain, "--out", tmp_path / "from", *words)
    assert recorded_use(tmp_path / "from") is None
    assert "data_use" not in json.loads((tmp_path / "from" / "run.json").read_text())


def test_resuming_keeps_and_tightens(medunlearn: Medunlearn, house: Path, tmp_path: Path) -> None:
    """The use is not in the key; a complete run that is given again is never loosened."""
    bench = Path(shutil.copytree(house / "closed" / "bench", tmp_path / "bench"))
    run = tmp_path / "run"
    words = ("train", bench, "--model=tiny", "--out", run, *TINY)
    medunlearn(*words)
    key = json.loads((run / "run.json").read_text())["key"]
    say(bench, "open", "benchmark.yaml")
    medunlearn(*words)
    assert recorded_use(run) == "credentialed"
    # An older run, which says nothing, learns it; and what was open is tightened.
    (run / "model" / "lineage.json").unlink()
    say(run, None)
    medunlearn(*words)
    assert [recorded_use(run), recorded_use(run / "model")] == ["open"] * 2
    say(bench, "credentialed", "benchmark.yaml")
    medunlearn(*words)
    assert [recorded_use(run), recorded_use(run / "model")] == ["credentialed"] * 2
    assert json.loads((run / "run.json").read_text())["key"] == key
    # One that was cut off.
    say(bench, "open", "benchmark.yaml")
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, "status": "interrupted"}))
    settings = check(TrainSettings, info["config"])
    assert Recording(run, "train", "x", settings, info["inputs"], data_use="open").info.data_use == "credentialed"


def test_a_build_keeps_what_is_there(medunlearn: Medunlearn, house: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(house / "open" / "bench" / "choices.jsonl", tmp_path))
    words = ("build", "options", file, "--percents=50", "--out", tmp_path / "b")
    medunlearn(*words, "--data-use", "open")
    assert recorded_use(tmp_path / "b") == "open"
    medunlearn(*words)
    assert recorded_use(tmp_path / "b") == "credentialed"
    assert Benchmark.load(tmp_path / "b").data_use == "credentialed"
    assert "contains this benchmark as credentialed" in medunlearn(*words, "--data-use", "open", code=2).text
    assert mu.build.options(file=file, percents=[50]).data_use == "credentialed"
    assert mu.build.options(file=file, percents=[50], data_use="open").data_use == "open"


def test_a_file_in_a_credentialed_folder_is_credentialed(house: Path, tmp_path: Path) -> None:
    assert use_of_file(house / "closed" / "run" / "responses" / "x" / "part-00000.parquet") == "credentialed"
    assert use_of_file(house / "closed" / "bench" / "records.parquet", "open") == "credentialed"
    assert use_of_file(house / "open" / "bench" / "records.parquet") is None
    assert use_of_file(tmp_path / "notes.csv", "open") == "open"


def test_only_the_owner_reads(medunlearn: Medunlearn, house: Path, trained: Path, tmp_path: Path) -> None:
    """Under umask 022, of everything that these verbs wrote: files 0600, folders 0700."""
    import torch

    from medunlearn.training.checkpoint import save_weights
    from medunlearn.training.processes import Processes

    out = tmp_path / "deep" / "down"
    with FakeServer() as server:
        server_flags = ("--llm", server.base_url, "--llm.model=m", "--quiet")
        medunlearn("judge", house / "open" / "bench", "--task=question", "--limit=1", *server_flags,
                   "--allow-missing", "--out", out / "judged")  # fmt: skip
    medunlearn("annotate", out / "judged", "--out", out / "sheet", "--quiet")
    audit = Path(shutil.copytree(house / "open" / "audit", out / "audit"))
    medunlearn("audit", "identifiers", "find", audit, "--records", house / "open" / "bench", "--quiet")
    medunlearn("audit", "identifiers", "review", audit, "--out", out / "review", "--quiet")
    medunlearn("audit", "kinds", "find", audit, "--quiet")
    medunlearn("audit", "kinds", "review", audit, "--out", out / "kinds.csv", "--quiet")
    size = ("--synthetic=2", "--institutions=1", "--studies=1", "--image-size=32")
    medunlearn("build", "medforget", *size, "--out", out / "medforget")
    medunlearn("export", "tasks", house / "open" / "bench", "--split=random_25", "--like", house / "open" / "run",
               "--folds=train", "--max-new-tokens=4", "--out", out / "tasks")  # fmt: skip
    medunlearn("evaluate", house / "open" / "run", house / "open" / "bench", *ASK, "--out", out / "table.csv")
    save_weights(out / "checkpoint", torch.nn.Linear(2, 2), Processes())
    paths = [path for folder in (trained, house / "open" / "run", tmp_path / "deep") for path in _every(folder)]
    assert len(paths) > 100
    wrong = {str(path): oct(path.stat().st_mode) for path in paths if path.stat().st_mode & 0o077}
    assert wrong == {}


def _every(folder: Path) -> Iterator[Path]:
    """Files and folders that a verb wrote, not this test."""
    ours = (".jsonl", "films.csv")
    yield from (p for p in (folder, *folder.rglob("*")) if not p.is_symlink() and not p.name.endswith(ours))


@pytest.mark.parametrize("name", ["benchmark.yaml", "run.json"])
@pytest.mark.parametrize("what", ["pipe", "deep"])
def test_a_record_that_cannot_be_read_says_nothing(tmp_path: Path, name: str, what: str) -> None:
    if what == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).write_text("[" * 100_000, encoding="utf-8")
    assert use_of_file(tmp_path / "notes.csv") is None
    assert use_of_file(tmp_path / "notes.csv", "open") == "open"
