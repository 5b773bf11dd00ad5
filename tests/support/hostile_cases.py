"""The fixed list of hostile cases: verbs with bad flags, files, runs and models, text and code of strangers.

``benchmarks_perf/hostile.py`` runs all of it, ``tests/hostile`` what never fell and must not.
"""

from __future__ import annotations

import csv
import json
import os
import pickle
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hostile_arena import Arena, Outcome
from hostile_inputs import (
    LAUGHS,
    Generator,
    Hostile,
    instead,
    json_with_key,
    odd_files,
    parquet_with,
    rewrite,
    weights_with,
    write,
)
from hostile_world import BASES, DEAD, LEARNS, QUICK, SMALL
from row_files import write_lines

from medunlearn.data.leftovers import LOCK

OUTCOMES = ("clear error", "handled", "traceback", "hang", "wrongly accepted", "harm")
PATIENCE = 60.0
"""Seconds after which a command hangs."""
MARK = "HACKED"
"""A file of this name appears where code of strangers is run."""
FORMULA = re.compile(r'^[\s"]*[=@]|^[+-](?!\d)')
Step = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A command and what is done before it.

    Attributes:
        refused: exit code 0 would be wrong.
        look: reads what was written and returns what is wrong with it.
        nobody: the command runs as a user without rights.
        shown: text that must not be shown.
    """

    group: str
    name: str
    line: str
    steps: tuple[Step, ...] = ()
    refused: bool = True
    look: Callable[[], list[str]] = field(default=list)
    nobody: bool = False
    shown: str | None = None


def cases() -> Iterator[Case]:
    yield from bad_flags()
    yield from bad_yaml()
    yield from bad_files()
    yield from broken_runs()
    yield from broken_models()
    yield from strangers_text()
    yield from strangers_code()
    yield from paths()
    yield from permissions()
    yield from files_of_others()
    yield from demanding_models()
    yield from keys_in_wrong_places()


# Flags

RANGES = """
train | --epochs -1 | --lr -1 | --lr nan | --batch-size 0 | --max-length 0
train | --warmup-ratio 2 | --clip -1
train | --weight-decay -1 | --tiny-width 7 | --tiny-layers 0 | --checkpoint-seconds -1
train | --seed 1.5 | --evaluate-every -1
train | --model hub:no/such | --model nowhere | --model bench | --without nobody | --without patient=nobody
train | --lora-dropout 1.5 | --device cuda:99 | --device abacus | --preset nothing | --evaluate.limit -1
adopt | --sample 0 | --sample x | --role nothing | --role retrained | --without random_25 | --base nowhere
adopt | --revision main | --template nothing | --max-length 1 | --device abacus | --data-use secret
unlearn | --split nothing | --split patient= | --split patient=nobody | --method nothing | --method os:system
unlearn | --npo.beta -1 --method npo | --npo.beta nan --method npo | --npo.betta 1 --method npo
unlearn | --method simnpo --simnpo.beta -1 | --method simnpo --simnpo.gamma x | --method rmu --rmu.layers 99
unlearn | --graddiff.retain-weight -1 | --method kl_min --kl-min.retain-weight nan | --stop-early -1 | --keep-gb -1
evaluate | --limit 0 | --limit -1 | --max-new-tokens 0 | --batch-size 0 | --replicates -1 | --replicates 1000000000
evaluate | --metrics nothing | --folds nothing | --against nowhere | --epoch 99 | --seed x
evaluate | --keywords nowhere.parquet
score | --measures nothing | --split nothing
attack | --attacks nothing | --attacks os:system | --replicates 1000000000 | --reference nowhere | --against nowhere
utility | --tasks nothing | --limit 0 | --fewshot -1 | --include nowhere | --tasks ""
audit | --prefixes 0 | --prefixes 8,8,x | --decodings nothing | --samples-per-prompt 0
audit | --measures nothing | --replicates 1000000000
audit | --baseline nowhere | --shortest-suffix -1 | --baseline http://
audit identifiers find | --detectors nothing | --fuzzy nothing | --replicates 1000000000 | --records nowhere
audit identifiers recall | --synthetic 0 | --synthetic -1 | --detector nothing | --labelled nowhere.jsonl
audit kinds find | --at-least -1 | --corpus nowhere | --clinical nothing
audit diagnosis | --k 0 | --k -1 | --gold nothing | --replicates 1000000000 | --synonyms nowhere | --part nothing
judge | --task nothing | --temperature -1 | --temperature nan | --per-group -1 | --groups nothing | --prompt nowhere
build amnesia | --synthetic 0 | --synthetic -1 | --synthetic 1e400 | --percents 0 | --percents 101 | --percents x
build amnesia | --diseases nothing | --institutions 0 | --note-length huge | --nonmember-patients -1
build diagnosis | --validation -1 | --test 99 | --percents 200
build medforget | --image-size 0 | --image-size 100000000 | --studies 0 | --angles nan
build lume | --documents-per-task 0 | --nonmembers nowhere
build tofu | --questions-an-author 0 | --holdout nothing
build muse | --corpus nothing | --membership nothing
build notes | --prefixes 0 | --prefixes x | --clozes -1 | --longest 0 | --prompt none | --prompt {nothing}
build notes | --level nothing | --text-column nothing | --split-by nothing | --forget-patients nobody
build notes | --percents 0 | --holdout nowhere | --probed 0 | --patient-column note | --seed x | --limit 99
build notes | --detectors nothing
build options | --count-from 7 | --limit 0 | --nonmembers 99 | --percents -1
inspect | --tokenizer nowhere
report | --split nothing | --benchmark nowhere | --benchmark diagnosis | --relations nowhere.yaml
annotate | --limit 0 | --limit -1
export tasks | --split nothing | --like nowhere | --limit -1
run | --train.epochs -1 | --unlearn.methods nothing | --unlearn.methods [npo] --unlearn.npo.beta -1
run | --split nothing | --seed x | --trian.epochs 1
sweep | --seeds [] | --seeds x | --splits [] | --jobs -1 | --unlearn.methods [] | --unlearn.lr -1
tune | --seeds [] | --runs 0 | --runs x | --flops 1e9 | --jobs -1 | --unlearn.methods []
tune | --space.graddiff.alpha [1,0] | --space.x [0,1] | --halving 1 | --axes nothing | --split nothing
tune | --rank-level 2 | --evaluate.subjects all | --unlearn.evaluate-every 1
verify | --subject patient=nobody | --subject nothing | --benchmark nowhere | --benchmark target
"""


def bad_flags() -> Iterator[Case]:
    for base in BASES:
        yield Case("bad flags", f"{base}: unknown flag", f"{BASES[base]} --no-such-flagg 1")
        yield Case("bad flags", f"{base}: an argument too many", f"{BASES[base]} a b one-too-many")
    for line in RANGES.strip().splitlines():
        base, *flags = (part.strip() for part in line.split(" | "))
        for flag in flags:
            yield Case("bad flags", f"{base} {flag}", replaced(BASES[base], flag))


def replaced(line: str, flags: str) -> str:
    """A command line with these flags in place of those of the same names."""
    words, more = shlex.split(line), shlex.split(flags)
    for name in (word for word in more if word.startswith("--")):
        if name in words:
            place = words.index(name)
            del words[place : place + 2]
    return shlex.join([*words, *more])


# YAML

YAMLS = {
    "a list": "- a\n- b",
    "text": "just text",
    "unclosed": "{unclosed: [",
    "a key twice": "seed: 1\nseed: 2",
    "a number as a key": "1: 2",
    "null as a key": "null: 3",
    "a list as a key": "? [a, b]\n: c",
    "an alias of itself": "seed: &a [*a]",
    "an unknown tag": "seed: !unknown x",
    "two documents": "---\nseed: 1\n---\nseed: 2",
    "a zero byte": "seed: 1\x00",
    "an unknown key": "seeed: 1",
    "a date": "seed: 2014-05-03",
    "nested 3,000 deep": "seed: " + "[" * 3000,
    "a billion laughs": LAUGHS,
    "5,000 digits": "seed: " + "9" * 5000,
}
EXPERIMENTS = {
    "no folder": ("benchmark", {}),
    "no benchmark": ("benchmark", None),
    "train is a list": ("train", []),
    "negative epochs": ("train", {"model": "tiny", "epochs": -1}),
    "no methods": ("unlearn", {"methods": []}),
    "a method twice": ("unlearn", {"methods": ["npo", "npo"]}),
    "methods is a number": ("unlearn", {"methods": 3}),
    "a negative beta": ("unlearn", {"methods": ["npo"], "npo": {"beta": -1}}),
    "a misspelled section": ("unlern", {"methods": ["npo"]}),
    "a module as a method": ("unlearn", {"methods": ["os:system"]}),
    "a layer the model has not": ("unlearn", {"methods": ["rmu"], "rmu": {"layers": [99]}}),
}
SWEEPS = {
    "no seeds": ("seeds", []),
    "a seed twice": ("seeds", [1, 1]),
    "a text as a seed": ("seeds", ["x"]),
    "no splits": ("splits", []),
    "an unknown split": ("splits", ["nothing"]),
    "a number as a split": ("splits", 3),
}
TUNINGS = {
    "no seeds": ("seeds", []),
    "an unknown split": ("split", "nothing"),
    "a text as a space": ("space", "lr"),
    "a list as a space": ("space", [["lr", 0, 1]]),
    "a range of nothing": ("space", {"lr": []}),
    "a range of texts": ("space", {"lr": ["a", "b"]}),
    "choices of lists": ("space", {"graddiff.alpha": {"choices": [[1], [2]]}}),
    "an unhashable choice": ("space", {"epochs": {"choices": [{"a": 1}, 2]}}),
    "infinite": ("space", {"lr": [1e-4, float("inf")]}),
    "no budget": ("runs", None),
    "a text as an axis": ("axes", ["speed"]),
}


def bad_yaml() -> Iterator[Case]:
    for base in ("build amnesia", "train", "evaluate", "audit"):
        for name, text in YAMLS.items():
            line = f"{BASES[base]} --config hostile.yaml"
            yield Case("bad YAML", f"{base}: {name}", line, (partial(write, "hostile.yaml", text),))
    files = (
        ("run", "experiment.yaml", EXPERIMENTS),
        ("sweep", "sweep.yaml", SWEEPS),
        ("tune", "tune.yaml", TUNINGS),
    )
    for verb, file, changes in files:
        for name, text in list(YAMLS.items())[:9] + list(YAMLS.items())[13:15]:
            yield Case("bad YAML", f"{verb}: {name}", BASES[verb], (partial(write, file, text),))
        for name, (key, value) in changes.items():
            yield Case("bad YAML", f"{verb}: {name}", BASES[verb], (partial(yaml_with, file, key, value),))


def yaml_with(file: str, key: str, value: object) -> None:
    import yaml

    write(file, json.dumps({**yaml.safe_load(Path(file).read_text()), key: value}))


# Files

BREAKS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: rewrite(path, lambda content: content[: len(content) // 2 + 5]),
    "junk": lambda path: path.write_bytes(bytes(range(255, 0, -1)) * 4),
    "a folder": lambda path: instead(path, path.mkdir),
    "a FIFO": lambda path: instead(path, lambda: os.mkfifo(path)),
    "/dev/zero": lambda path: instead(path, lambda: path.symlink_to("/dev/zero")),
    "a broken link": lambda path: instead(path, lambda: path.symlink_to("nowhere")),
}
READ = {
    "build amnesia notes": "notes.csv",
    "build diagnosis file": "admissions.jsonl",
    "build notes": "clinical.csv",
    "build options": "options.jsonl",
    "audit responses": "responses.jsonl",
    "audit identifiers find": "responses.jsonl",
    "audit kinds corrected": "spans.csv",
    "agree": "annotated/labels.csv",
    "run": "experiment.yaml",
    "inspect": "bench/benchmark.yaml",
    "train": "bench/records.parquet",
    "evaluate": "bench/questions.parquet",
}
ROWS = {
    "build options: an answer that is no option": ("options.jsonl", "answer", 7, "build options"),
    "build options: options are text": ("options.jsonl", "options", "yes", "build options"),
    "build diagnosis: diagnoses are null": ("admissions.jsonl", "diagnoses", None, "build diagnosis file"),
    "audit: responses are null": ("responses.jsonl", "response", None, "audit responses"),
    "audit identifiers: texts are lists": ("responses.jsonl", "response", [1], "audit identifiers find"),
    "tofu: answers are numbers": ("tofu/full.json", "answer", 5, "build tofu"),
    "muse: texts are null": ("muse/raw/forget.json", "text", None, "build muse"),
    "lume: tasks that there are not": ("lume/forget.jsonl", "task", "Task9", "build lume"),
}


def bad_files() -> Iterator[Case]:
    for base, file in READ.items():
        for name, change in BREAKS.items():
            refused = name != "cut off" or not file.endswith(".csv")  # a cell that ends early is not to be told
            steps = (partial(change, Path(file)),)
            yield Case("bad files", f"{base}: {file} {name}", BASES[base], steps, refused)
    for name, (file, key, value, base) in ROWS.items():
        yield Case("bad files", name, BASES[base], (partial(lines_with, Path(file), key, value),))


def lines_with(path: Path, key: str, value: object) -> None:
    rows = [json.loads(line) | {key: value} for line in path.read_text().splitlines()]
    write_lines(path, rows)


# Runs

RUN_FILES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "cut off": BREAKS["cut off"],
    "a list": lambda path: write(path, "[]"),
    "empty": lambda path: write(path, "{}"),
    "nested 5,000 deep": lambda path: write(path, "[" * 5000),
    "a FIFO": BREAKS["a FIFO"],
    "without config": lambda path: json_with_key(path, "config", None, drop=True),
    "inputs are text": lambda path: json_with_key(path, "inputs", "x"),
    "without schema": lambda path: json_with_key(path, "schema", None, drop=True),
    "an unknown status": lambda path: json_with_key(path, "status", "spell"),
}
TABLES: dict[str, Callable[[Path], object]] = {
    "cut off": BREAKS["cut off"],
    "junk": BREAKS["junk"],
    "a FIFO": BREAKS["a FIFO"],
    "foreign": lambda path: parquet_with(path, "foreign", 0.5),
    "a column missing": lambda path: parquet_with(path, "columns missing", 0.5),
    "values are text": lambda path: parquet_with(path, "text values", 0.5),
}


def broken_runs() -> Iterator[Case]:
    for base, run in (
        ("evaluate", "target"),
        ("score", "unlearned"),
        ("report", "unlearned"),
        ("export", "unlearned"),
        ("audit kinds find", "stored"),
        ("annotate", "labels"),
    ):
        for name, change in RUN_FILES.items():
            yield Case(
                "broken runs", f"{base}: run.json {name}", BASES[base], (partial(change, Path(run, "run.json")),)
            )
    for base, table in (
        ("report", "unlearned/evaluations/*/scores.parquet"),
        ("report audit", "stored/scores.parquet"),
        ("annotate", "labels/cases.parquet"),
    ):
        for name, change in list(TABLES.items())[: 5 if base == "annotate" else 6]:  # its cases hold no numbers
            yield Case("broken runs", f"{base}: scores {name}", BASES[base], (partial(first, table, change),))
    for name, table in (
        ("history", "target/history.parquet"),
        ("responses", "unlearned/responses/*/part*.parquet"),
    ):
        for how in ("cut off", "foreign"):
            base = "report" if name == "history" else "score"
            yield Case("broken runs", f"{base}: {name} {how}", BASES[base], (partial(first, table, TABLES[how]),))
    other = "build amnesia --synthetic 9 --nonmember-patients 6 --seed 5 --out bench"
    swap = (partial(texts_changed, Path("bench/records.parquet"), Path("bench/questions.parquet")),)
    for base in ("evaluate", "unlearn", "attack", "report"):
        yield Case("broken runs", f"{base}: a benchmark of other texts than the run's", BASES[base], swap)
    yield Case("broken runs", "build: over the run's benchmark", other)
    yield Case(
        "broken runs", "evaluate: a benchmark in place of a run", f"evaluate bench bench --split random_25 {QUICK}"
    )
    yield Case(
        "broken runs", "train: a run in place of a benchmark", f"train target --model tiny {SMALL} --out out"
    )
    yield Case(
        "broken runs",
        "report: an audit among runs",
        "report target audit --benchmark bench --split random_25 --out out",
    )


def first(pattern: str, change: Callable[[Path], object]) -> None:
    change(sorted(Path().glob(pattern))[0])


def texts_changed(*paths: Path) -> None:
    """Other texts and answers under the same ids."""
    import pandas as pd

    for path in paths:
        frame = pd.read_parquet(path)
        for column in ("text", "answer"):
            if column in frame:
                frame[column] = [f"{value} Changed." for value in frame[column]]
        frame.to_parquet(path)


# Models

MODELS: dict[str, Callable[[Path], object]] = {
    "NaN weights": lambda model: weights_with(model / "model.safetensors", float("nan")),
    "one NaN": lambda model: weights_with(model / "model.safetensors", float("nan"), everywhere=False),
    "infinite weights": lambda model: weights_with(model / "model.safetensors", float("inf")),
    "zero weights": lambda model: weights_with(model / "model.safetensors", 0.0),
    "weights changed after training": lambda model: weights_with(
        model / "model.safetensors", 0.03, everywhere=False
    ),
    "weights cut off": lambda model: BREAKS["cut off"](model / "model.safetensors"),
    "a header that lies": lambda model: rewrite(
        model / "model.safetensors", lambda content: (2**62).to_bytes(8, "little") + content[8:]
    ),
    "no weights": lambda model: (model / "model.safetensors").unlink(),
    "a vocabulary smaller than the tokenizer": lambda model: cut_vocabulary(model),
    "a tokenizer cut off": lambda model: BREAKS["cut off"](model / "tokenizer.json"),
    "a config of another width": lambda model: json_with_key(model / "config.json", "hidden_size", 64),
    "an unknown architecture": lambda model: json_with_key(model / "config.json", "model_type", "spell"),
}


def broken_models() -> Iterator[Case]:
    for base in ("evaluate", "audit", "attack", "utility", "audit diagnosis", "unlearn"):
        for name, change in MODELS.items():
            yield Case("broken models", f"{base}: {name}", BASES[base], (partial(change, Path("target/model")),))
    for name, change in MODELS.items():
        if name != "weights changed after training":
            yield Case("broken models", f"adopt: {name}", BASES["adopt"], (partial(change, Path("foreign")),))
    for name in list(MODELS)[:1] + list(MODELS)[5:10]:
        yield Case(
            "broken models", f"export: {name}", BASES["export"], (partial(MODELS[name], Path("unlearned/model")),)
        )


def cut_vocabulary(model: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = model / "model.safetensors"
    size = json.loads((model / "config.json").read_text())["vocab_size"]
    cut = {
        name: tensor[: size // 2].clone() if tensor.shape[0] == size else tensor
        for name, tensor in load_file(file).items()
    }
    save_file(cut, file, {"format": "pt"})
    json_with_key(model / "config.json", "vocab_size", size // 2)


# Text of strangers

TEXTS = {
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)> [red]x[/red] [/] | a | b |\n# head",
    "formula": "=cmd|' /C calc'!A0",
    "control characters": "\x1b[2J\x1b]0;title\x07\u202e over",
    "template": "{{7*7}} {% for x in ().__class__.__mro__ %}{{x}}{% endfor %} $(touch HACKED) `id`",
}


PLACES: dict[str, tuple[str, str, Callable[[str], Step]]] = {
    "in audited responses": ("audit responses", "", lambda text: partial(lines_of, text)),
    "in searched responses": ("audit identifiers find", "", lambda text: partial(lines_of, text)),
    "in a question": (
        *("build options", ""),
        lambda text: partial(lines_with, Path("options.jsonl"), "question", text),
    ),
    "in a run's responses": (
        *("report", "--show-text"),
        lambda text: partial(column_with, "unlearned/responses/*/part*.parquet", "response", text),
    ),
    "in spans": (
        *("audit kinds review", ""),
        lambda text: partial(column_with, "stored/spans.parquet", "text", text),
    ),
    "in cases": ("annotate", "", lambda text: partial(column_with, "labels/cases.parquet", "title", text)),
    "as a benchmark's name": (
        *("inspect", ""),
        lambda text: partial(yaml_text, "bench/benchmark.yaml", "name", text),
    ),
}


def strangers_text() -> Iterator[Case]:
    group = "strangers' text"
    for name, text in TEXTS.items():
        for place, (base, more, step) in PLACES.items():
            line = f"{BASES[base]} {more}"
            yield Case(group, f"{base}: {name} {place}", line, (step(text),), False, written)
        titled = f"{BASES['report']} --title {shlex.quote(text)}"
        yield Case(group, f"report: {name} as a title", titled, (), False, written)


def lines_of(text: str) -> None:
    lines = Path("responses.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    words = f"{text} " * 3 + " ".join(map(str, range(40)))
    for row in rows:
        row |= {"reference": words, "response": words, "text": f"{row['prefix']} {words}"}
        row["record_id"] += text[:9]
    write_lines(Path("responses.jsonl"), rows)


def column_with(pattern: str, column: str, text: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = sorted(Path().glob(pattern))[0]
    table = pq.read_table(path)
    place, kind = table.schema.get_field_index(column), table.schema.field(column)
    pq.write_table(table.set_column(place, kind, pa.array([text] * len(table), kind.type)), path)


def yaml_text(file: str, key: str, text: str) -> None:
    import yaml

    write(file, yaml.safe_dump({**yaml.safe_load(Path(file).read_text()), key: text}))


def written() -> list[str]:
    """Live markup, formulas and terminal controls in new files: pages, sheets, Markdown."""
    wrong = []
    for path in sorted(Path("out").rglob("*")) if Path("out").is_dir() else []:
        if path.suffix in (".html", ".md"):
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".md":  # lines of code blocks are indented
                text = re.sub("^    .*$", "", text, flags=re.MULTILINE)
            if re.search(r"<script>alert|(?<!\\)<img src=x", text):
                wrong.append(f"live markup in {path}")
            if re.search("[\x00-\x08\x0b-\x1f\x7f]", text):
                wrong.append(f"control characters in {path}")
        if path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                cells = [cell for row in csv.reader(file) for cell in row]
            wrong += [f"a formula in {path}: {cell[:40]!r}" for cell in cells if FORMULA.search(cell)][:1]
    return wrong


# Code of strangers


class _Bomb:
    def __reduce__(self) -> Any:
        return os.system, (f"touch {MARK}",)


def strangers_code() -> Iterator[Case]:
    tags = {
        "python/object/apply": f"!!python/object/apply:os.system ['touch {MARK}']",
        "python/object/new": f"!!python/object/new:os.system ['touch {MARK}']",
        "python/name": "!!python/name:os.system",
        "python/module": "!!python/module:os",
    }
    for name, tag in tags.items():
        for base in ("train", "evaluate", "audit", "judge"):
            file = partial(write, "hostile.yaml", f"seed: {tag}")
            yield Case(
                "strangers' code",
                f"{base}: YAML tag {name}",
                f"{BASES[base]} --config hostile.yaml",
                (file,),
                True,
                ran,
            )
        for base, file_name in (
            ("run", "experiment.yaml"),
            ("sweep", "sweep.yaml"),
            ("tune", "tune.yaml"),
            ("inspect", "bench/benchmark.yaml"),
        ):
            file = partial(write, file_name, f"name: {tag}")
            yield Case("strangers' code", f"{base}: YAML tag {name}", BASES[base], (file,), True, ran)
    for base in ("evaluate", "audit", "attack", "unlearn"):
        for name, step in (
            ("pickled weights", pickled_weights),
            ("pickled weights beside", partial(pickled_weights, beside=True)),
            ("model code", model_code),
            ("a template that calls", template_that_calls),
        ):
            refused = name == "pickled weights"
            yield Case("strangers' code", f"{base}: {name}", BASES[base], (step,), refused, ran)
    for base, file_name in (
        ("evaluate", "bench/questions.parquet"),
        ("report", "unlearned/run.json"),
        ("build amnesia notes", "notes.csv"),
        ("audit responses", "responses.jsonl"),
    ):
        bomb = partial(lambda name: Path(name).write_bytes(pickle.dumps(_Bomb())), file_name)
        yield Case("strangers' code", f"{base}: a pickle as {file_name}", BASES[base], (bomb,), True, ran)
    for flag in ("--method os:system", "--method mine:Mine", "--method builtins:eval"):
        mine = partial(write, "mine.py", "Mine = 3\n")
        yield Case("strangers' code", f"unlearn {flag}", replaced(BASES["unlearn"], flag), (mine,), True, list)


def ran() -> list[str]:
    return ["code ran"] if Path(MARK).exists() else []


def pickled_weights(*, beside: bool = False) -> None:
    model = Path("target/model")
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb()))
    if not beside:
        (model / "model.safetensors").unlink()


def model_code() -> None:
    model = Path("target/model")
    code = f"import os\nos.system('touch {MARK}')\nfrom transformers import LlamaForCausalLM as Own\n"
    code += "from transformers import LlamaConfig as OwnConfig\n"
    (model / "modeling_own.py").write_text(code)
    names = {"AutoModelForCausalLM": "modeling_own.Own", "AutoConfig": "modeling_own.OwnConfig"}
    json_with_key(model / "config.json", "auto_map", names)


def template_that_calls() -> None:
    called = (
        "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ cycler.__init__.__globals__.os.system('touch HACKED') }}"
    )
    Path("target/model/chat_template.jinja").write_text(called)


# Paths


def paths() -> Iterator[Case]:
    for base in ("build amnesia", "train", "unlearn", "audit", "report", "export", "annotate", "export tasks"):
        for name in (
            "fifo",
            "junk",
            "broken_link/x",
            "junk/below",
            "/dev/null",
            "/proc/1/x",
            "bench/records.parquet",
            "x" * 300,
        ):
            line = replaced(BASES[base], f"--out {name}")
            yield Case("path tricks", f"{base}: --out {name[:30]}", line, (odd_files,))
    for base, run in (("evaluate", "target"), ("score", "unlearned"), ("report", "unlearned")):
        for value in ("../../outside", "/etc", "\x1b[31mred", "a\x00b"):
            step = partial(json_with_key, Path(run, "run.json"), "benchmark", value)
            yield Case("path tricks", f"{base}: run.json names {value!r}", BASES[base], (step,), False)
    for name in ("../outside", "/tmp/outside", "a/b", "..", "\x1b[31m"):
        step = partial(parquet_value, "bench/records.parquet", "record_id", name)
        yield Case("path tricks", f"train: a record is called {name!r}", BASES["train"], (step,), True)
        line = replaced(BASES["run"], f"--name {shlex.quote(name)}")
        yield Case("path tricks", f"run: is called {name!r}", line, (), False)


def parquet_value(file: str, column: str, value: str) -> None:
    import pandas as pd

    frame = pd.read_parquet(file)
    frame.loc[0, column] = value
    frame.to_parquet(file)


def permissions() -> Iterator[Case]:
    for base, closed in (
        ("inspect", "bench/records.parquet"),
        ("train", "bench"),
        ("evaluate", "target/run.json"),
        ("audit", "target/model/model.safetensors"),
        ("report", "unlearned/evaluations"),
        ("audit responses", "responses.jsonl"),
        ("run", "experiment.yaml"),
        ("agree", "annotated/labels.csv"),
    ):
        step = partial(os.chmod, closed, 0)
        yield Case("permissions", f"{base}: {closed} may not be read", BASES[base], (step,), nobody=True)
    for base in ("build amnesia", "train", "audit responses", "report", "export", "annotate", "build keywords"):
        step = partial(os.chmod, ".", 0o555)
        yield Case("permissions", f"{base}: the folder may not be written", BASES[base], (step,), nobody=True)


# Files of others

OURS = {
    "build amnesia": "README.md records.parquet splits.parquet",
    "build lume new": "build.json rejects.parquet",
    "train": "run.json history.parquet model/config.json",
    "audit responses": "run.json scores.parquet",
    "audit identifiers find": "identifiers.json findings.parquet",
    "audit identifiers review": "review.csv review.json",
    "audit kinds review": "sheet.csv",
    "annotate": "labels.csv annotate.html",
    "report": "report.html report.md report.json",
    "report audit": "report.html",
    "export": "config.json README.md",
    "export tasks": "README.md utils.py",
    "build keywords": "keywords.parquet",
    "verify": "held.parquet",
    "case key": "signing.key signing.key.pub pseudonyms.key",
    "case letter": "letter.html",
}
"""Names that a command would write in its folder ``out``."""
LOCKED = ("build amnesia", "train", "unlearn", "audit responses", "report", "case key")
MINE = "patient_id,note\nmine,mine\n"


def files_of_others() -> Iterator[Case]:
    group = "files of others"
    for base, names in OURS.items():
        for name in names.split():
            refused = name != "pseudonyms.key"  # it stays, and the key is made beside it
            file = Path("out", name)
            yield Case(group, f"{base}: {file}", BASES[base], (partial(mine, file),), refused, partial(kept, file))
        file = Path("out", names.split()[0])
        link = (partial(mine, Path("mine.csv")), partial(linked, file, "../mine.csv"))
        yield Case(group, f"{base}: {file} is a link", BASES[base], link, True, partial(kept, Path("mine.csv")))
    for base in ("evaluate", "attack", "verify"):
        line = replaced(BASES[base], "--out clinical.csv")
        yield Case(group, f"{base}: --out clinical.csv", line)
        for name in ("bench/records.parquet", "target/run.json", "target/model/model.safetensors", "case"):
            flags = f"--out {name} --overwrite" if base != "verify" or name == "case" else f"--out {name}"
            yield Case(group, f"{base}: {flags}", replaced(BASES[base], flags))
    for base in LOCKED:
        for lock in (LOCK, ".lock"):
            file = Path("out", lock)
            steps = (partial(mine, Path("mine.csv")), partial(linked, file, "../mine.csv"))
            look = partial(kept, Path("mine.csv"))
            yield Case(
                group, f"{base}: {lock} is a link", BASES[base], steps, base not in ("report", "case key"), look
            )
            steps = (partial(mine, file),)
            refused = lock == LOCK or base not in ("report", "case key")
            yield Case(group, f"{base}: {lock} is mine", BASES[base], steps, refused, partial(kept, file))
    for name in (".mybackup.2024.part", ".photos.202405-31.part", ".old.broken", ".lock"):
        file = Path("target", name)
        line = f"train bench {LEARNS} --out target"
        yield Case(group, f"train again: {name}", line, (partial(mine, file),), False, partial(kept, file))


def mine(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MINE)
    os.utime(path, (0, 0))


def linked(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def kept(path: Path) -> list[str]:
    return [] if path.is_file() and path.read_text() == MINE else [f"harm: {path} is not as it was"]


# Models that ask for too much

_SLOW = (
    "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}"
    + "{% endfor %}" * 2
)
DEMANDS: dict[str, Callable[[Path], object]] = {
    "ten million layers": lambda model: json_with_key(model / "config.json", "num_hidden_layers", 10**7),
    "a vocabulary of 10**12": lambda model: json_with_key(model / "config.json", "vocab_size", 10**12),
    "300,000 added tokens": lambda model: many_tokens(model),
}
TEMPLATES = {
    "nested loops": (_SLOW, True),
    "a huge text": ("{{ 'x' * 10**10 }}{{ messages }}", True),
    "include": ("{% include 'x' %}", True),
    "recursion": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", True),
}


def demanding_models() -> Iterator[Case]:
    group = "demanding models"
    for base in ("evaluate", "audit", "unlearn", "attack"):
        for name, change in DEMANDS.items():
            yield Case(group, f"{base}: {name}", BASES[base], (partial(change, Path("target/model")),))
    for name, (text, refused) in TEMPLATES.items():
        chat = Path("target/model/chat_template.jinja")
        line = f"{BASES['evaluate']} --template chat"
        yield Case(
            group, f"evaluate: a chat template with {name}", line, (partial(write, str(chat), text),), refused
        )
        file = partial(write, "own.jinja", text + "{{ question }}")
        line = f"{BASES['evaluate']} --template own.jinja"
        yield Case(group, f"evaluate: a template file with {name}", line, (file,), refused)
    rows = partial(many_rows, Path("bench/records.parquet"))
    yield Case(group, "evaluate: records of 60 million rows", BASES["evaluate"], (rows,))
    yield Case(group, "audit responses: 60 million rows", "audit --responses many.parquet --out out", (many_rows,))
    for base in ("evaluate", "audit"):
        yield Case(group, f"{base}: code of a tokenizer", BASES[base], (tokenizer_code,), False, ran)
    line = "audit target named --limit 2 --prefixes 8 --max-new-tokens 30 --replicates 20 --out out"
    yield Case(group, "audit: a file whose name is no UTF-8", line, (strange_name,), False)


def many_tokens(model: Path) -> None:
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    token = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [{**token, "id": 9000 + n, "content": f"<{n}>"} for n in range(300_000)]
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))


def many_rows(path: Path = Path("many.parquet")) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"response": pa.nulls(60_000_000)}), path)


def tokenizer_code() -> None:
    model = Path("target/model")
    (model / "own.py").write_text(
        f"import os\nos.system('touch {MARK}')\nfrom transformers import LlamaTokenizer as Own\n"
    )
    json_with_key(model / "tokenizer_config.json", "auto_map", {"AutoTokenizer": ["own.Own", None]})


def strange_name() -> None:
    Path("named").mkdir()
    words = f"Ada saw the lion {' '.join(map(str, range(60)))}"
    for name in (b"named/caf\xe9.txt", b"named/caf.txt"):
        Path(os.fsdecode(name)).write_text(words)


# Keys

KEY = "sk-proj-Ab3dEf6hIj9kLm"


def keys_in_wrong_places() -> Iterator[Case]:
    for flag in ("api-key-env", "base-url", "proxy", "api-key"):
        line = f"judge bench --task label --llm {DEAD} --llm.model m --llm.{flag} {KEY} --dry-run --out out"
        yield Case("keys", f"judge: --llm.{flag}", line, shown=KEY)
    yield Case(
        "keys", "judge: --llm", f"judge bench --task label --llm {KEY} --llm.model m --dry-run --out out", shown=KEY
    )


# Outcomes


def drawn_case(base: str, seed: int, place: int) -> Hostile:
    """The ``place``-th drawn input of one way to call a verb."""
    generator = Generator(f"{seed} {base} {place}")
    case = generator.draw(base)
    while base == "demo" and not case.refused:  # what it takes, it runs for minutes
        case = generator.draw(base)
    return case


def outcome(case: Case, arena: Arena) -> tuple[str, str]:
    """One of :data:`OUTCOMES`, and what is wrong."""
    wrong: list[str] = []
    seen = arena.attempt(
        shlex.split(case.line),
        case.steps,
        limit=PATIENCE,
        look=lambda: wrong.extend(case.look()),
        nobody=case.nobody,
    )
    if case.shown and case.shown in seen.out + seen.err:
        wrong.append("harm: a key is shown")
    return judged(seen, case.refused, wrong)


def judged(seen: Outcome, refused: bool, wrong: list[str]) -> tuple[str, str]:
    problems = [*seen.problems(refused=refused), *wrong]
    for name in ("hang", "traceback", "wrongly accepted"):
        for problem in problems:
            if problem.startswith(name):
                return name, problem
    if problems:
        return "harm", "; ".join(problems)
    return ("handled", "") if seen.code == 0 else ("clear error", seen.err.strip().partition("\n")[0])
