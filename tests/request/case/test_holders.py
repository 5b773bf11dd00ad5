"""Files that hold a patient, in a tree of real runs, against a search through every byte of it."""

from __future__ import annotations

import gzip
import html
import json
import os
import shutil
import sqlite3
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import InputError, UnknownNameError
from medunlearn.llm.store import Store, StoredResponse
from medunlearn.llm.usage import Usage
from medunlearn.models.load import load_model
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.probes.evaluate import evaluate
from medunlearn.request.holders.file_search import find_holders
from medunlearn.request.holders.holder_log import Holder, Holders, UnreadFile
from medunlearn.results.runs import Run
from medunlearn.study.export import export
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import unlearn

NAME = "Ana Silva"
QUICK: dict[str, Any] = {"limit": 2, "replicates": 20, "max_new_tokens": 4, "allow_broken": True}


def stored(key: str, text: str) -> StoredResponse:
    names = ("model", "served_model", "system_fingerprint", "prompt_version", "created")
    return StoredResponse(
        key=key, status="answered", reason="", text=text, usage=Usage(), log_probs=None, temperature=None,
        seed=None, sample=0, max_tokens=9, finish_reason="stop", **dict.fromkeys(names, "m"),
    )  # fmt: skip


def paths_below(root: Path, holders: Iterable[Holder | UnreadFile]) -> set[str]:
    return {str(file.path.relative_to(root)) for file in holders}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    hospital = build(AmnesiaSettings(synthetic=20))
    return Benchmark.load(hospital.save(tmp_path_factory.mktemp("holders") / "tree" / "bench"))


@pytest.fixture(scope="module")
def patient(bench: Benchmark) -> str:
    return bench.split("random_10").forget[0]


@pytest.fixture(scope="module")
def tree(bench: Benchmark, patient: str, small: dict[str, Any]) -> Path:
    """Benchmark, target, two retrained models, two unlearned ones, evaluations, exports, and files beside them."""
    assert bench.folder is not None
    root = bench.folder.parent
    values = {**small, "epochs": 1}
    request, other = f"patient={patient}", f"patient={bench.split('random_10').forget[1]}"

    def trained(name: str, **more: str) -> Run:
        return train(bench, train_settings({**values, **more}), root / name, quiet=True)

    target = trained("target", tiny_tokenizer="common")
    without = trained("without", without=request, tiny_tokenizer="own")
    trained("another", without=other)
    method = {"method": "graddiff", "split": request, "epochs": 1, "precision": "fp32", "trainable": "layers:1"}
    forgot = unlearn(target, bench, unlearn_settings(method, tiny=True), root / "forgot", quiet=True)
    evaluate(forgot, bench, EvaluateSettings(split=request, **QUICK), against=[target, without], quiet=True)
    for run in (target, without, forgot):
        export(run.folder, root / f"hf-{run.folder.name}")
    beside(root, bench, patient)
    return root


def beside(root: Path, bench: Benchmark, patient: str) -> None:
    """Write files as people leave them beside runs."""
    theirs = [record for record in bench.records if record.groups["patient"] == patient]
    other = next(record for record in bench.records if record.groups["patient"] != patient)
    note, name = theirs[0].text, theirs[0].identifiers[0].value
    (root / "notes").mkdir()
    (root / "notes" / "mail.txt").write_text(f"please remove {name.upper()}\nthank you", encoding="utf-16")
    (root / "notes" / "old.html").write_text(f"<p title='{html.escape(name)}'>x</p>", encoding="utf-8")
    words = note.split()
    page = "<p>" + " ".join(f"<b>{html.escape(word)}</b>" for word in words) + "</p>"
    (root / "notes" / "page.html").write_text(page, encoding="utf-8")
    (root / "notes" / "escaped.json").write_text(json.dumps({"t": f"é\n{name}"}), encoding="utf-8")
    (root / "notes" / "others.txt").write_text(other.text, encoding="utf-8")
    (root / "notes" / "innocent.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (root / "notes" / "latin.txt").write_bytes(f"Müller, {name}".encode("latin-1", "replace"))
    with gzip.open(root / "notes" / "notes.csv.gz", "wt") as packed:
        packed.write(f'id,text\n1,"{note}"\n')
    with zipfile.ZipFile(root / "notes" / "book.xlsx", "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/sharedStrings.xml", f"<si><t>{html.escape(name)}</t></si>")
    pd.DataFrame({"nested": [[{"deep": note}]]}).to_parquet(root / "notes" / "nested.parquet")
    with Store(root / "llm") as store:
        store.put(stored("k1", f"The patient is {name}."))
        store.put(stored("k2", "7"))
        store.put(stored("k3", "8"))
    pd.DataFrame({"case_id": [theirs[0].record_id, other.record_id], "key": ["k2", "k3"]}).to_parquet(
        root / "llm" / "judgements.parquet"
    )
    (root / "notes" / f"scan of {patient}.bin2").write_bytes(b"\0\1\2")
    (root / "notes" / "memory.dump").write_bytes(b"\0\1\2" + name.encode() + b"\0")
    (root / "notes" / "unknown.dat").write_bytes(bytes(range(256)))
    os.symlink("/etc", root / "notes" / "outside")
    os.symlink("mail.txt", root / "notes" / "inside")
    os.mkfifo(root / "notes" / "pipe")


UNREAD = (".gz", ".xlsx", ".dump", ".dat", ".bin2")


def every_text(path: Path) -> Iterator[str]:
    """Everything that a file says, by other means than the search's."""
    content = path.read_bytes()
    if path.suffix in UNREAD:
        return
    if content[:4] == b"PAR1":
        table = pd.read_parquet(path)
        yield from (str(table[column].tolist()) for column in table)
    elif content[:15] == b"SQLite format 3":
        with closing(sqlite3.connect(path)) as database, database:
            yield str(database.execute("SELECT * FROM responses").fetchall())
    elif path.suffix != ".safetensors" and path.name != "tokenizer.json":
        yield from (content.decode(code, "ignore") for code in ("utf-8", "utf-16", "latin-1"))
        if path.suffix == ".json":
            yield str(json.loads(content))
        if path.suffix == ".html":
            text = html.unescape(content.decode())
            yield from (text, "".join(part.partition(">")[2] for part in text.split("<")))


def search_all(root: Path, bench: Benchmark, patient: str) -> set[str]:
    """Files with an id, an identifier or a sentence that only the patient has."""
    theirs = {record.record_id for record in bench.records if record.groups["patient"] == patient}
    rest = " ".join(
        [record.text for record in bench.records if record.record_id not in theirs]
        + [f"{q.question} {q.answer} {q.options}" for q in bench.questions if q.record_id not in theirs]
    ).casefold()
    needles = {patient, *theirs, *(q.question_id for q in bench.questions if q.record_id in theirs)}
    needles |= {i.value for r in bench.records if r.record_id in theirs for i in r.identifiers if len(i.value) > 3}
    texts = [r.text for r in bench.records if r.record_id in theirs]
    texts += [part for q in bench.questions if q.record_id in theirs for part in (q.question, q.answer)]
    needles |= {s for text in texts for s in text.replace("\n", ". ").split(". ") if len(s.split()) >= 8}
    needles = {needle.casefold() for needle in needles} - {
        needle for needle in needles if needle.casefold() in rest
    }
    needles = {needle for needle in needles if needle not in rest}
    files = set()
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            name = str(path.relative_to(root))
            # A folder of an evaluation has its split's name.
            texts = [text.casefold() for text in (name, name.replace("_", "-"), *every_text(path))]
            if any(needle in text for text in texts for needle in needles):
                files.add(name)
    return files


@pytest.fixture(scope="module")
def log(tree: Path, bench: Benchmark, patient: str) -> Holders:
    return find_holders([tree], bench, f"patient={patient}", quiet=True)


def test_every_file_that_a_search_of_all_bytes_finds(
    log: Holders, tree: Path, bench: Benchmark, patient: str
) -> None:
    expected = search_all(tree, bench, patient)
    not_text = {"trained on", "token of the vocabulary", "answer about"}
    evidence = {str(file.path.relative_to(tree)): set(file.evidence) - not_text for file in log.holders}
    by_text = {name for name, ways in evidence.items() if ways}
    assert expected - by_text == set()
    # Beyond whole sentences the search knows eight words in a row, and parts of names.
    assert all(evidence[name] <= {"text", "part of an identifier"} for name in by_text - expected)
    tables = {f"bench/{name}.parquet" for name in ("records", "questions", "splits")}
    assert {*tables, "forgot/run.json"} <= by_text
    names = ["mail.txt", "old.html", "page.html", "escaped.json", "nested.parquet", "latin.txt"]
    assert {f"notes/{name}" for name in [*names, f"scan of {patient}.bin2"]} <= by_text
    assert not {"notes/others.txt", "notes/innocent.csv"} & by_text
    assert len(by_text) < len([path for path in tree.rglob("*") if path.is_file()]) / 2


def test_weights_are_told_by_their_lineage(log: Holders, tree: Path) -> None:
    assert paths_below(tree, (file for file in log.holders if "trained on" in file.evidence)) == {
        "target/model/model.safetensors",
        "another/model/model.safetensors",
        "forgot/model/delta.safetensors",
        "hf-target/model.safetensors",
        "hf-forgot/model.safetensors",  # a delta put together with its base: other bytes, the same tensors
    }
    # The export of a model that never saw the patient is known, too.
    assert not [file for file in log.unread if file.path.suffix == ".safetensors"]


def test_weights_of_unknown_training(tree: Path, bench: Benchmark, patient: str, tmp_path: Path) -> None:
    """Exports without their runs, and a run whose base is gone, are not judged."""
    for name in ("hf-target", "hf-without"):
        shutil.copytree(tree / name, tmp_path / name)
    shutil.copytree(tree / "without", tmp_path / "tuned")
    record = json.loads((tmp_path / "tuned" / "run.json").read_text())
    record["inputs"]["model"] = "f" * 64

    def tuned_from(base: str, folder: Path) -> Holders:
        record["config"]["model"], record["lineage"] = base, [base]
        (tmp_path / "tuned" / "run.json").write_text(json.dumps(record))
        return find_holders([folder], bench, f"patient={patient}", quiet=True)

    log = tuned_from("runs/gone", tmp_path)
    unknown = [file for file in log.unread if "not recorded" in file.reason]
    names = ("hf-target", "hf-without", "tuned/model")
    assert paths_below(tmp_path, unknown) == {f"{name}/model.safetensors" for name in names}
    # One that was tuned from a model which saw the patient has the patient's weights, too.
    log = tuned_from(str(tree / "target"), tmp_path / "tuned")
    (weights,) = (file for file in log.holders if file.kind == "weights")
    assert weights.evidence == {"trained on": 1}


OLD_TRAINING = """{
  "verb": "train", "label": "target", "key": "5d41", "status": "complete",
  "config": {"model": "tiny", "without": WITHOUT, "seed": 0}, "inputs": {"benchmark": "BENCH", "model": "tiny"},
  "lineage": ["tiny"], "results": {"rendering": {"template": "plain"}}, "seconds": 1.0
}"""
OLD_UNLEARNING = """{
  "verb": "unlearn", "label": "ga", "key": "7a69", "status": "complete",
  "config": {"method": "ga", "split": "random_10"}, "inputs": {"benchmark": "GONE", "model": "f00d"},
  "lineage": ["tiny", "TARGET"], "results": {"rendering": {"template": "plain"}}, "seconds": 1.0
}"""
OLD_ADOPTION = """{
  "verb": "adopt", "label": "target", "key": "1b2c", "status": "complete",
  "config": {"role": "target", "without": null}, "inputs": {"benchmark": "BENCH", "model": "f00d"},
  "lineage": ["org/chat"], "results": {"rendering": {"template": "chat"}}, "seconds": 1.0
}"""


def test_weights_of_runs_of_the_first_version(bench: Benchmark, patient: str, tmp_path: Path) -> None:
    """Their records have no schema number, no data use and no hashes of files."""
    runs = {
        "target": OLD_TRAINING.replace("WITHOUT", "null"),
        "without": OLD_TRAINING.replace("WITHOUT", f'"patient={patient}"'),
        "forgot": OLD_UNLEARNING.replace("TARGET", str(tmp_path / "target")),
        "adopted": OLD_ADOPTION,
        "broken": OLD_TRAINING.replace("WITHOUT", "null").replace('["tiny"]', '{"0": "tiny"}'),
        "elsewhere": OLD_TRAINING.replace("WITHOUT", "null").replace("BENCH", "GONE"),
    }
    for place, (name, record) in enumerate(runs.items()):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "run.json").write_text(record.replace("BENCH", bench.fingerprint))
        save_file({"weight": torch.full((2,), float(place))}, tmp_path / name / "model" / "model.safetensors")
    log = find_holders([tmp_path], bench, f"patient={patient}", quiet=True)
    trained = (file for file in log.holders if "trained on" in file.evidence)
    files = {f"{name}/model/model.safetensors" for name in ("target", "forgot", "adopted")}
    assert paths_below(tmp_path, trained) == files
    unknown = (file for file in log.unread if "not recorded" in file.reason)
    assert paths_below(tmp_path, unknown) == {f"{name}/model/model.safetensors" for name in ("broken", "elsewhere")}


def test_weights_are_no_copy_by_their_names_and_shapes_alone(
    tree: Path, bench: Benchmark, patient: str, tmp_path: Path
) -> None:
    shutil.copytree(tree / "hf-target", tmp_path / "hf-changed")
    weights = tmp_path / "hf-changed" / "model.safetensors"
    save_file({name: tensor + 1 for name, tensor in load_file(weights).items()}, weights)
    log = find_holders([tree / "target", tmp_path], bench, f"patient={patient}", quiet=True)
    assert weights in {file.path for file in log.unread if "not recorded" in file.reason}


def test_other_weights_beside_a_known_model_are_not_known(
    tree: Path, bench: Benchmark, patient: str, tmp_path: Path
) -> None:
    """Tensors of the same names, which a reader of the folder never sees."""
    shutil.copytree(tree / "hf-without", tmp_path / "hf-without")
    other = tmp_path / "hf-without" / "model-before.safetensors"
    save_file(
        {name: tensor + 1 for name, tensor in load_file(tree / "hf-target" / "model.safetensors").items()}, other
    )
    log = find_holders([tree / "without", tmp_path], bench, f"patient={patient}", quiet=True)
    assert [file.path for file in log.unread] == [other]


def test_checkpoints_of_a_run_that_was_cut_off(tree: Path, bench: Benchmark, patient: str, tmp_path: Path) -> None:
    shutil.copytree(
        tree / "target", tmp_path / "cut", ignore=shutil.ignore_patterns("model", "evaluations", "responses")
    )
    record = json.loads((tmp_path / "cut" / "run.json").read_text()) | {"status": "interrupted"}
    (tmp_path / "cut" / "run.json").write_text(json.dumps(record))
    folder = tmp_path / "cut" / "checkpoints" / "finetune" / "step-000002"
    folder.mkdir(parents=True)
    shutil.copy(tree / "target" / "model" / "model.safetensors", folder / "optimizer.safetensors")
    log = find_holders([tmp_path], bench, f"patient={patient}", quiet=True)
    evidence = [(file.path.name, file.evidence) for file in log.holders]
    assert evidence == [("optimizer.safetensors", {"trained on": 1})]


def test_vocabularies_that_hold_names(log: Holders, tree: Path, bench: Benchmark, patient: str) -> None:
    (vocabulary,) = (file for file in log.holders if "token of the vocabulary" in file.evidence)
    assert vocabulary.path == tree / "another" / "model" / "tokenizer.json"
    tokenizer = load_model(tree / "another" / "model").tokenizer
    texts = {True: list[str](), False: list[str]()}
    for record in bench.records:
        texts[record.groups["patient"] == patient] += [record.text, *(i.value for i in record.identifiers)]
    for q in bench.questions:
        texts[bench.subject(q.record_id) == patient] += [q.question, q.answer, *q.options]
    strings = {tokenizer.decode([token]).strip() for token in range(3, len(tokenizer))}
    alone = {
        text
        for text in strings
        if sum(map(str.isalnum, text)) >= 4
        and any(text in own for own in texts[True])
        and not any(text in other for other in texts[False])
    }
    assert vocabulary.evidence["token of the vocabulary"] == len(alone) > 5


def test_stored_answers_are_linked_by_their_key(log: Holders, tree: Path) -> None:
    (store,) = (file for file in log.holders if file.path.name == "responses.sqlite")
    assert store.kind == "store"
    assert store.evidence["answer about"] == 1
    assert store.evidence["identifier"] >= 1


def test_what_was_not_read_is_listed(log: Holders, tree: Path, patient: str) -> None:
    missed = {str(file.path.relative_to(tree)): file.reason for file in log.unread}
    assert missed == {
        "notes/outside": "a symbolic link, not followed",
        "notes/inside": "a symbolic link, not followed",
        "notes/pipe": "no plain file (pipe, device, socket)",
        "notes/notes.csv.gz": "its format is not read (.gz)",
        "notes/book.xlsx": "its format is not read (.xlsx)",
        "notes/memory.dump": "its format is not read (.dump)",
        "notes/unknown.dat": "its format is not read (.dat)",
        f"notes/scan of {patient}.bin2": "its format is not read (.bin2)",  # its name is listed as well
    }
    assert not log.complete
    assert log.files == len([path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]) - 5


def test_the_log_is_private_and_holds_no_text(
    log: Holders, tree: Path, bench: Benchmark, patient: str, tmp_path: Path
) -> None:
    names = {i.value for r in bench.records for i in r.identifiers if len(i.value) > 5}
    others = {record.groups["patient"] for record in bench.records} - {patient}
    for suffix in ("parquet", "csv", "json"):
        path = log.write(tmp_path / f"log.{suffix}")
        assert path.stat().st_mode & 0o077 == 0
        content = "\n".join(every_text(path))
        assert "records.parquet" in content
        assert not [name for name in {*names, *others} if name in content]
    table = pd.read_parquet(tmp_path / "log.parquet")
    assert list(table.columns) == ["path", "kind", "bytes", "sha256", "how", "evidence", "reason"]
    row = table[(table["path"] == str(tree / "bench" / "records.parquet")) & (table["how"] == "record")].iloc[0]
    assert (row["kind"], row["evidence"], row["bytes"]) == ("benchmark", 1, Path(row["path"]).stat().st_size)
    with pytest.raises(InputError, match="written as"):
        log.write(tmp_path / "log.txt")


def test_identifiers_alone_find_the_records(tree: Path, bench: Benchmark, patient: str) -> None:
    name = next(r.identifiers[0].value for r in bench.records if r.groups["patient"] == patient)
    assert bench.folder is not None
    by_name = find_holders([tree / "notes", bench.folder], None, identifiers=[name], quiet=True)
    evidence = {file.path.name: file.evidence for file in by_name.holders}
    assert evidence["mail.txt"] == {"identifier": 1}
    assert evidence["records.parquet"]["record"] == 1
    assert "others.txt" not in evidence


def test_nobody_and_nowhere(bench: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError) as error:
        find_holders([tmp_path], bench, "patient=patient-9999")
    assert "patient-0" not in str(error.value)
    with pytest.raises(InputError, match="no subject to search for"):
        find_holders([tmp_path], None)
    with pytest.raises(InputError, match="name its folder too"):
        find_holders([tmp_path], None, "patient=patient-0001")
    with pytest.raises(InputError, match="There is no"):
        find_holders([tmp_path / "nowhere"], bench, "patient=patient-0001")


def test_short_ids_are_told_in_columns_of_ids_alone(tmp_path: Path) -> None:
    records = tuple(
        Record(str(n), f"Note number {n} of somebody or other", {"patient": str(n)}) for n in (4, 5, 55)
    )
    named = Record(
        "6", "Ana Silva came home", {"patient": "6"}, (Identifier("name", "Ana Silva"), Identifier("age", "61"))
    )
    bench = Benchmark("b", "amnesia", ("patient",), "patient", (*records, named), (), {})
    pd.DataFrame({"item": ["4", "5"], "value": [5, 6]}).to_parquet(tmp_path / "with.parquet")
    pd.DataFrame({"item": ["4", "55"], "value": [5, 5], "text": ["5 of 5", "5"]}).to_parquet(
        tmp_path / "without.parquet"
    )
    (tmp_path / "with.jsonl").write_text('{"record_id": 5}\n')
    (tmp_path / "with.csv").write_text("patient,n\n5,1\n")
    (tmp_path / "without.json").write_text('{"n": 5, "record_id": "55"}')
    holders = find_holders([tmp_path], bench, "patient=5", quiet=True).holders
    assert {file.path.name: file.evidence for file in holders} == {
        name: {"id": 1} for name in ("with.parquet", "with.jsonl", "with.csv")
    }
    assert find_holders([tmp_path], bench, "patient=6", quiet=True).identifiers_left_out == 1  # "61" is too short


def test_a_phrase_is_found_over_the_border_of_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medunlearn.request.holders.contents.CHUNK", 16)
    for shift in range(20):
        (tmp_path / "a.txt").write_text("x " * shift + "Ana Maria Silva Reis" + " y" * 30)
        (file,) = find_holders([tmp_path], None, identifiers=["Ana Maria Silva Reis"], quiet=True).holders
        assert file.evidence == {"identifier": 1}


def test_broken_files_are_said_and_lose_nothing(tmp_path: Path) -> None:
    heads = {"a.parquet": b"PAR1", "b.gz": b"\x1f\x8b", "c.zip": b"PK\3\4", "d.sqlite": b"SQLite format 3\0"}
    # A name tells nothing: a workbook, an archive and an image under the names of texts.
    heads |= {"e.csv": b"PK\3\4", "f.txt": b"\x1f\x8b\x08", "g.md": b"\xff\xd8\xff\xe0\0", "h.json": b"a\0b"}
    for name, head in heads.items():
        (tmp_path / name).write_bytes(head + b" broken")
    (tmp_path / "empty").touch()
    for name, text in (("run.json", "{"), ("benchmark.yaml", "a: ["), ("tokenizer.json", "{}"), ("z.txt", NAME)):
        (tmp_path / name).write_text(text)
    log = find_holders([tmp_path], None, identifiers=[NAME], quiet=True)
    assert paths_below(tmp_path, log.holders) == {"z.txt"}
    assert paths_below(tmp_path, log.unread) == {*heads, "tokenizer.json"}


def test_odd_names_links_and_files_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "real"
    (root / "model").mkdir(parents=True)
    (root / "run.json").write_text('{"verb": "train", "schema": 2, "config": [], "inputs": 3, "lineage": {}}')
    (root / "model" / "model.safetensors").write_bytes(b"12")
    (root / os.fsdecode(b"caf\xe9.txt")).write_text(NAME)
    (root / "secret.txt").write_text(NAME)
    (tmp_path / "link").symlink_to(root)
    opened = Path.open

    def refuse(path: Path, *how: Any, **more: Any) -> Any:
        if path.name == "secret.txt":
            raise PermissionError(13, "Permission denied")
        return opened(path, *how, **more)

    monkeypatch.setattr(Path, "open", refuse)
    log = find_holders([tmp_path / "link", root], None, identifiers=[NAME], quiet=True)
    assert [file.evidence for file in log.holders] == [{"identifier": 1}]
    missed = {file.path.name: file.reason for file in log.unread}
    assert missed["secret.txt"] == "cannot be read: Permission denied"
    assert "not recorded" in missed["model.safetensors"]
    monkeypatch.undo()
    for suffix in ("parquet", "csv", "json"):
        assert "caf\\xe9.txt" in "".join(every_text(log.write(tmp_path / f"log.{suffix}"))).replace("\\\\", "\\")


def test_a_copy_of_an_image_is_known_by_its_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "bench"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "one.png").write_bytes(b"\x89PNG one")
    (folder / "images" / "two.png").write_bytes(b"\x89PNG two")
    records = tuple(
        Record(f"{name}-77", f"Films of {name} were read by nobody", {"patient": name}, (), f"images/{name}.png")
        for name in ("one", "two")
    )
    bench = Benchmark("b", "medforget", ("patient",), "patient", records, (), {})
    bench = Benchmark.load(bench.save(folder))
    shutil.copy(folder / "images" / "one.png", tmp_path / "copy.png")
    log = find_holders([tmp_path], bench, "patient=one", quiet=True)
    images = (file for file in log.holders if "image" in file.evidence)
    assert paths_below(tmp_path, images) == {"bench/images/one.png", "copy.png"}
    assert log.complete
    # By a name in a record its image is the subject's, too. Of images elsewhere nobody knows whose they are.
    (tmp_path / "scaled.jpg").write_bytes(b"\xff\xd8 one")
    log = find_holders([tmp_path], None, identifiers=["Films of one"], quiet=True)
    images = (file for file in log.holders if "image" in file.evidence)
    assert paths_below(tmp_path, images) == {"bench/images/one.png"}
    assert paths_below(tmp_path, log.unread) == {"copy.png", "scaled.jpg"}


def test_weights_in_other_formats_are_unread(tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "model.gguf", "optimizer.pt"):
        (tmp_path / name).write_bytes(b"weights")
    log = find_holders([tmp_path], None, identifiers=[NAME], quiet=True)
    assert {file.reason for file in log.unread} == {
        f"weights in a format that is not read ({suffix})" for suffix in (".bin", ".gguf", ".pt")
    }
    assert log.files == 0
