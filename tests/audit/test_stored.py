"""Stored responses: pairs of two files, empty cells, and logs of other tools as they are."""

from __future__ import annotations

import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_run import audit
from medunlearn.data.lineage import Lineage, write_lineage
from medunlearn.errors import ConfigError, InputError, SourceError

WORDS = [f"word{place}" for place in range(50)]
QUICK = {"replicates": 20, "quiet": True, "measures": ("run_30",)}
Row = dict[str, Any]


def row(name: str, prefix: int, says: bool = True, **more: Any) -> Row:
    """A record's prefix of some words; what it says is what follows, or nothing of it."""
    words = [f"{name}x{word}" for word in WORDS]
    suffix = " " + " ".join(words[prefix:])
    response = suffix if says else " nothing of it"
    return {"record_id": name, "prefix": " ".join(words[:prefix]), "suffix": suffix, "response": response, **more}


def write(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    return path


def run_30(result: Audit) -> dict[str, float | None]:
    scores = result.scores()
    values = [None if pd.isna(value) else float(value) for value in scores["value"]]
    return dict(zip(scores["item"], values, strict=True))


def test_two_files_pair_by_record_and_prefix_in_any_order(tmp_path: Path):
    """Different names of files and columns, another order, prefixes of other lengths."""
    names = [f"r{n}" for n in range(6)]
    ours = write(tmp_path / "a.jsonl", [row(name, 6 + place) for place, name in enumerate(names)])
    rows = [row(name, 6 + place, says=place == 0, corpus="other") for place, name in enumerate(names)]
    theirs = write(tmp_path / "b.jsonl", rows[::-1])
    result = audit(responses=ours, baseline=theirs, out=tmp_path / "out", **QUICK)
    table = result.table()
    (gap,) = table[table["model"] == "a"].to_dict("records")
    assert (gap["n_pairs"], gap["prefix_tokens"]) == (6, 0)
    assert gap["difference"] == pytest.approx(5 / 6)
    (corpus,) = result.first_screen().extraction.corpora
    (beside,) = corpus.baselines
    assert (corpus.corpus, beside.only_model, beside.only_baseline) == ("responses", 5, 0)


@pytest.mark.parametrize("numbered", [True, False])
def test_a_table_sorted_another_way_gives_the_same_numbers(tmp_path: Path, numbered: bool) -> None:
    rows = [
        row(f"r{n}", 6 + n % 3, says=(n + draw) % 4 < 2, **({"sample": draw} if numbered else {}))
        for n in range(12)
        for draw in range(3)
    ]
    orders = {"first": rows, "reversed": rows[::-1], "drawn": random.Random(1).sample(rows, len(rows))}
    tables, scores = [], []
    for name, order in orders.items():
        (tmp_path / name).mkdir()
        settings = {**QUICK, "measures": ("run_30", "rouge_l")}
        result = audit(responses=write(tmp_path / name / "a.jsonl", order), out=tmp_path / name / "out", **settings)
        tables.append(result.table())
        keys = ["item", "measure", "value"] if not numbered else ["item", "measure", "sample", "value"]
        scores.append(result.scores()[keys].sort_values(keys, ignore_index=True))
    assert len(scores[0]) == 2 * len(rows)
    for table, score in zip(tables[1:], scores[1:], strict=True):
        pd.testing.assert_frame_equal(table, tables[0], check_exact=True)
        pd.testing.assert_frame_equal(score, scores[0], check_exact=True)


def test_without_ids_the_texts_pair(tmp_path: Path):
    rows = [row(f"r{n}", 8) for n in range(5)]
    for entry in rows:
        del entry["record_id"]
    ours, theirs = write(tmp_path / "a.jsonl", rows), write(tmp_path / "b.jsonl", rows[::-1][:4])
    table = audit(responses=ours, baseline=theirs, out=tmp_path / "out", **QUICK).table()
    assert table["n_pairs"].max() == 4


def test_no_pair_is_an_error_that_names_the_fix(tmp_path: Path, run: Callable[..., Any]):
    ours = write(tmp_path / "a.jsonl", [row(f"r{n}", 8) for n in range(5)])
    theirs = write(tmp_path / "b.jsonl", [row(f"s{n}", 8) for n in range(5)])
    words = ("--responses", ours, "--baseline", theirs, "--out", tmp_path / "out", "--replicates", 20)
    outcome = run("audit", *words, code=2)
    assert "shares none of the 5 probes" in " ".join(outcome.output.split())
    assert "record_id" in outcome.output
    assert "nan" not in outcome.output
    # The pair that failed is not kept.
    assert Audit.open(tmp_path / "out").baselines == ()


def test_two_prefixes_of_one_length_are_two_probes_in_both_files(tmp_path: Path):
    entry, other = row("r", 8), row("r", 8)
    other["prefix"] = other["prefix"].replace("rxword0", "again")
    files = [
        write(tmp_path / f"{name}.jsonl", rows) for name, rows in (("a", [entry, other]), ("b", [other, entry]))
    ]
    items = [set(audit(responses=file, out=tmp_path / file.stem, **QUICK).scores()["item"]) for file in files]
    assert items[0] == items[1]
    assert len(items[0]) == 2


def test_an_empty_cell_is_unscored_and_an_empty_answer_is_not(tmp_path: Path):
    rows = [row("r0", 8), row("r1", 8) | {"response": None}, row("r2", 8) | {"response": ""}]
    result = audit(responses=write(tmp_path / "a.jsonl", rows), out=tmp_path / "a", allow_broken=True, **QUICK)
    assert run_30(result) == {"r0@8": 1.0, "r1@8": None, "r2@8": 0.0}
    assert "no response" in str(result.scores().set_index("item").loc["r1@8", "reason"])
    table = "record_id,prefix,suffix,response\n" + "\n".join(
        f"{entry['record_id']},{entry['prefix']},{entry['suffix']},{entry['response'] or ''}" for entry in rows
    )
    (tmp_path / "b.csv").write_text(table + "\n")
    result = audit(responses=tmp_path / "b.csv", out=tmp_path / "b", allow_broken=True, **QUICK)
    assert run_30(result) == {"r0@8": 1.0, "r1@8": None, "r2@8": None}
    (corpus,) = result.first_screen().extraction.corpora
    assert (corpus.members.hits, corpus.members.n, corpus.members.unscored) == (1, 1, 2)
    assert "2 more are in no count" in " ".join(result.first_screen().sentences)
    assert result.run.info.results["without_response"] == 2


def inspect_sample(entry: Row, epoch: int = 1, **more: Any) -> Row:
    messages = [{"role": "system", "content": "Go on."}, {"role": "user", "content": entry["prefix"]}]
    message = {"role": "assistant", "content": [{"type": "text", "text": entry["response"]}]}
    output = {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}]}
    metadata = {"subject": f"patient of {entry['record_id']}"}
    sample = {
        "id": entry["record_id"],
        "epoch": epoch,
        "input": messages,
        "target": entry["suffix"],
        "output": output,
    }
    return {**sample, "metadata": metadata, **more}


def inspect_log(path: Path, samples: list[Row]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t"}, "status": "success"}))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return path


def packed_by_zstandard(log: Path) -> Path:
    """The same ZIP file as Inspect writes it today, which Python's own module writes from 3.14 on."""
    local, central = b"", b""
    with zipfile.ZipFile(log) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            sink = pa.BufferOutputStream()
            with pa.CompressedOutputStream(sink, "zstd") as stream:
                stream.write(data)
            packed = sink.getvalue().to_pybytes()
            common = struct.pack("<HHHHIIIHH", 0, 93, 0, 0, zlib.crc32(data), len(packed), len(data), len(name), 0)
            version = struct.pack("<H", 63)
            central += (
                b"PK\1\2" + version * 2 + common + struct.pack("<HHHII", 0, 0, 0, 0, len(local)) + name.encode()
            )
            local += b"PK\3\4" + version + common + name.encode() + packed
        count = len(archive.namelist())
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(central), len(local), 0)
    log.write_bytes(local + central + b"PK\5\6" + end)
    return log


@pytest.mark.parametrize("form", ["eval", "zstandard", "json"])
def test_an_inspect_log(tmp_path: Path, form: str):
    samples = [inspect_sample(row("r0", 8)), inspect_sample(row("r0", 8, says=False), 2)]
    samples.append(inspect_sample(row("r1", 8), error={"message": "timeout"}))
    if form in ("eval", "zstandard"):
        file = inspect_log(tmp_path / "log.eval", samples)
        file = packed_by_zstandard(file) if form == "zstandard" else file
    else:
        file = tmp_path / "log.json"
        file.write_text(json.dumps({"eval": {"task": "t"}, "samples": samples}))
    result = audit(responses=file, out=tmp_path / "out", **QUICK)
    scores = result.scores().sort_values(["item", "sample"])
    assert list(zip(scores["item"], scores["sample"], strict=True)) == [("r0@8", 0), ("r0@8", 1), ("r1@8", 0)]
    assert scores["value"].fillna(-1).tolist() == [1.0, 0.0, -1.0]
    assert set(scores["subject"]) == {"patient of r0", "patient of r1"}


def test_a_damaged_inspect_log(tmp_path: Path):
    file = packed_by_zstandard(inspect_log(tmp_path / "log.eval", [inspect_sample(row("r0", 8))]))
    whole = file.read_bytes()
    place = whole.index(b"PK\1\2") - 40  # in the last member's data
    for damage in (bytes([whole[place] ^ 1]), b"\0" * 20):
        file.write_bytes(whole[:place] + damage + whole[place + len(damage) :])
        with pytest.raises(SourceError, match="cannot be read as an Inspect log"):
            audit(responses=file, out=tmp_path / "out", **QUICK)


@pytest.mark.parametrize("listed", [True, False])
def test_samples_of_lm_eval(tmp_path: Path, listed: bool):
    rows = []
    for number, says in enumerate((True, False)):
        entry = row(f"r{number}", 8, says)
        messages = {"until": ["\n\n"]}
        arguments = (
            [[entry["prefix"], messages]]
            if listed
            else {"gen_args_0": {"arg_0": entry["prefix"], "arg_1": messages}}
        )
        document = {"id": entry["record_id"], "subject": f"p{number}"}
        log = {"doc_id": number, "doc": document, "target": entry["suffix"], "arguments": arguments}
        rows.append({**log, "resps": [[entry["response"]]], "filtered_resps": [entry["response"]]})
    result = audit(responses=write(tmp_path / "samples_t.jsonl", rows), out=tmp_path / "out", **QUICK)
    assert run_30(result) == {"r0@8": 1.0, "r1@8": 0.0}
    rows[0]["resps"] = [[[-3.1, False]]]
    with pytest.raises(SourceError, match="scores choices"):
        audit(responses=write(tmp_path / "choices.jsonl", rows), out=tmp_path / "choices", **QUICK)


def batch(entry: Row, body: Row, status: int = 200) -> Row:
    response = {"status_code": status, "request_id": "q", "body": body}
    return {"id": "b", "custom_id": entry["record_id"], "response": response, "error": None}


def test_a_batch_output_with_references(tmp_path: Path):
    rows = [row(f"r{n}", 8) for n in range(4)]
    texts = [entry["response"] for entry in rows]
    message = {"choices": [{"index": 0, "message": {"role": "assistant", "content": texts[0]}}]}
    answer = {"output": [{"type": "message", "content": [{"type": "output_text", "text": texts[2]}]}]}
    lines = [
        batch(rows[0], message),
        batch(rows[1], {"choices": [{"index": 0, "text": " no"}]}),
        batch(rows[2], answer),
        batch(rows[3], {"error": {"message": "rate limit"}}, 429),
    ]
    file = write(tmp_path / "output.jsonl", lines)
    with pytest.raises(SourceError, match="--references"):
        audit(responses=file, out=tmp_path / "none", **QUICK)
    reference_rows = [
        {"custom_id": entry["record_id"], "prefix": entry["prefix"], "suffix": entry["suffix"]} for entry in rows
    ]
    references = write(tmp_path / "references.jsonl", reference_rows)
    result = audit(responses=file, references=references, out=tmp_path / "out", **QUICK)
    assert run_30(result) == {"r0@8": 1.0, "r1@8": 0.0, "r2@8": 1.0, "r3@8": None}
    closed = tmp_path / "closed"
    closed.mkdir()
    write_lineage(closed, Lineage(data_use="credentialed"))
    secret = write(closed / "references.jsonl", reference_rows)
    with pytest.raises(ConfigError, match="recorded as credentialed"):
        audit(responses=file, references=secret, out=tmp_path / "3", data_use="open", **QUICK)
    assert audit(responses=file, references=secret, out=tmp_path / "3", **QUICK).run.info.data_use == "credentialed"
    with pytest.raises(SourceError, match="'r0' is there twice"):
        audit(
            responses=file,
            references=write(tmp_path / "twice.jsonl", reference_rows * 2),
            out=tmp_path / "2",
            **QUICK,
        )


@pytest.mark.parametrize(
    "content", [b"no zip", json.dumps({"doc_id": 0, "arguments": 3, "resps": 4}).encode() + b"\n"]
)
def test_a_broken_log_is_refused(tmp_path: Path, content: bytes):
    file = tmp_path / ("log.eval" if content == b"no zip" else "log.jsonl")
    file.write_bytes(content)
    with pytest.raises(SourceError):
        audit(responses=file, out=tmp_path / "out", **QUICK)
    with pytest.raises(InputError, match="--references names"):
        audit(responses=file, references=tmp_path / "none.csv", out=tmp_path / "out", **QUICK)
    with pytest.raises(ConfigError, match="leave out --prompt"):
        audit(responses=file, out=tmp_path / "out", template="chat", **QUICK)
