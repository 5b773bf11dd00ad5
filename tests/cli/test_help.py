"""Help, flags, lists, and what refuses wrong words: of every command, generated from its settings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import medunlearn as package
from medunlearn.attacks import ATTACKS
from medunlearn.cli.command import Generated
from medunlearn.cli.listing import TABLES
from medunlearn.cli.verbs import GROUPS, MOVED, verbs
from medunlearn.metrics import metric_targets

METHODS = (
    "adaptive_rmu",
    "altpo",
    "ceu",
    "chip",
    "counterfactual",
    "dpo",
    "ga",
    "graddiff",
    "gru",
    "idk_dpo",
    "idk_nll",
    "jensun",
    "kl_min",
    "manu",
    "memorize",
    "merge",
    "ngdiff",
    "npo",
    "npo_sam",
    "pdu",
    "redirect",
    "repselect",
    "rmu",
    "satimp",
    "simnpo",
    "undial",
    "wga",
)
TORCH = ("torch", "transformers", "peft", "accelerate", "safetensors", "tokenizers")
HEAVY = ("torch", "pandas", "httpx", "transformers", "nltk", "cyclonedx", "rich")


@pytest.mark.parametrize("words", verbs(), ids=" ".join)
def test_every_verb_has_help_an_example_and_the_common_flags(
    medunlearn: Callable[..., Any], words: tuple[str, ...]
) -> None:
    result = medunlearn(*words, "--help").stdout
    assert f"Example: medunlearn {' '.join(words)}" in result
    assert all(flag in result for flag in ("--quiet", "--json", "--help"))
    command = Generated(verbs()[words])
    assert set(verbs()[words].first.split()) <= set(command.flags)
    arguments = {parameter.name for parameter in command.arguments}
    helped = {key: flag.help for key, flag in command.flags.items() if key not in ("device", "seed", *arguments)}
    assert all(helped.values()), f"flags without help: {[key for key, text in helped.items() if not text]}"
    texts = {key: command.options.model_fields[key].description for key in arguments}
    assert all(texts.values()), texts


def test_help_names_every_verb_in_the_order_of_use(medunlearn: Callable[..., Any]) -> None:
    result = medunlearn("--help").stdout
    places = [result.index(f"│ {words[0]} ") for words in verbs()]
    assert places == sorted(places)


def test_settings_stand_in_the_help_with_their_defaults(medunlearn: Callable[..., Any]) -> None:
    result = medunlearn("unlearn", "--help").stdout
    row = next(line for line in result.splitlines() if "--lr " in line)
    assert "peak learning rate of AdamW (above 0) [2e-05]" in row
    assert result.index("Most used") < result.index("--lr ") < result.index("--weight-decay")


@pytest.mark.parametrize("words", [(), ("build",), ("audit", "kinds")])
def test_without_arguments_it_shows_help(medunlearn: Callable[..., Any], words: tuple[str, ...]) -> None:
    assert "Commands" in medunlearn(*words, code=2).stdout
    assert GROUPS[words] if words else True


def test_version(medunlearn: Callable[..., Any]) -> None:
    assert medunlearn("--version").stdout == f"medunlearn {package.__version__}\n"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("trian",), ["no command 'trian'", "Did you mean 'train'?"]),
        (("build", "amnesa"), ["no command 'build amnesa'", "Did you mean 'amnesia'?"]),
        (("train", "bench"), ["model is missing", "--out is missing"]),
        (("train", "--model", "tiny", "--out", "x"), ["BENCHMARK is missing"]),
        (("build", "amnesia", "--synthetic", "many", "--out", "x"), ["synthetic='many'"]),
        (("inspect", "x", "--bogus"), ["There is no flag --bogus"]),
        (("inspect", "x", "y"), ["'y' is one argument too many"]),
        (("train", "b", "--model", "--out", "x"), ["--model needs a value"]),
        (("train", "b", "--model=tiny", "--out=x", "lr=1e-4"), ["'lr=1e-4': settings are flags, --lr 1e-4"]),
        (("unlearn", "r", "b", "npo.beta=0.2"), ["settings are flags, --npo.beta 0.2"]),
        (("evaluate", "r", "b", "--agianst", "x", "--split", "s"), ["Did you mean --against?"]),
        (
            ("train", "b", "--model=tiny", "--out=x", "--batch_size=many", "--lrr=3", "--epochs=-1"),
            ["3 settings are wrong", "Did you mean --lr?", "batch_size='many'", "epochs=-1"],
        ),
    ],
)
def test_wrong_words_are_refused(medunlearn: Callable[..., Any], words: tuple[str, ...], parts: list[str]) -> None:
    result = medunlearn(*words, code=2)
    assert result.stdout == ""
    assert all(part in result.text for part in parts), result.text


@pytest.mark.parametrize("old", MOVED)
def test_a_verb_that_moved_says_where(medunlearn: Callable[..., Any], old: str) -> None:
    assert f"is now `{MOVED[old]}`" in medunlearn(old, code=2).text


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--lr", "1e-4"], {"lr": 1e-4}),
        (["--lr=1e-4", "--batch_size", "4"], {"lr": 1e-4, "batch_size": 4}),
        (["--keep-epochs", "--no-pack-records"], {"keep_epochs": True, "pack_records": False}),
        (["--keep-epochs=false"], {"keep_epochs": False}),
        (["--evaluate.max-new-tokens", "8"], {"evaluate.max_new_tokens": 8}),
        (["--without", "null"], {"without": None}),
        (["--without", "12"], {"without": "12"}),
        (["--evaluate", "{folds: train}"], {"evaluate": {"folds": "train"}}),
        (["-q", "--json"], {"quiet": True, "json": True}),
    ],
)
def test_flags_to_values(words: list[str], values: dict[str, Any]) -> None:
    command = Generated(verbs()[("train",)])
    parsed, problems = command.read(["bench", "--out", "x", *words])
    assert problems == []
    assert parsed == {"benchmark": "bench", "out": "x", **values}


def test_methods_attacks_and_repeated_flags() -> None:
    parsed, problems = Generated(verbs()[("unlearn",)]).read(
        ["run", "bench", "--out=x", "--npo.beta", "0.2", "--my.module:Mine.alpha=5"]
    )
    assert problems == []
    assert (parsed["npo.beta"], parsed["my.module:Mine.alpha"]) == (0.2, 5)
    parsed, _ = Generated(verbs()[("evaluate",)]).read(
        ["run", "bench", "--against", "a", "--against=b", "--folds", "train,holdout"]
    )
    assert (parsed["against"], parsed["folds"]) == (["a", "b"], "train,holdout")
    for patient in ("null", "none", "true", "007"):
        assert Generated(verbs()[("forget",)]).read(["m", "n", "--patient", patient])[0]["patient"] == patient
    parsed, _ = Generated(verbs()[("audit",)]).read(["m", "notes=hub:a/b", "b", "--identifiers", "--out=x"])
    assert (parsed["model"], parsed["corpus"], parsed["identifiers"]) == ("m", ("notes=hub:a/b", "b"), True)


def test_a_file_of_settings(medunlearn: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("model: tiny\nlr: 1e-3\nepochs: 2\n")
    words = ["bench", "--out", "x", "--config", str(tmp_path / "s.yaml"), "--lr", "5e-4"]
    parsed, _ = Generated(verbs()[("train",)]).read(words)
    assert (parsed["model"], parsed["lr"], parsed["epochs"]) == ("tiny", 5e-4, 2)
    assert "There is no file" in medunlearn("train", "b", "--out=x", "--config=nothing.yaml", code=2).text


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], HEAVY[:-1]),
        (["train", "b", "--modle", "x"], HEAVY),
        (["sweep", "nothing.yaml", "--jbos=1"], HEAVY),
    ],
)
def test_nothing_heavy_is_loaded_before_settings_are_checked(words: list[str], heavy: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom medunlearn.cli.main import app\n"
        f"try:\n    app({words!r})\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr.splitlines()[-1] == "[]"


LISTS_AND_WRONG_SETTING = """
import sys, json
from medunlearn.cli.listing import TABLES
from medunlearn.cli.main import app
from medunlearn.methods import METHODS, method_class
from medunlearn.registry import hints_of

loaded, unlearn = {}, ["unlearn", "run", "bench", "--split=s", "--out=x", "--method=npo", "--npo.beat=3"]
hints = {name: len(hints_of(method_class(name))) for name in METHODS}
loaded["methods"] = sorted(HEAVY & set(sys.modules))
for words in (*(["list", what, "--quiet"] for what in TABLES), unlearn):
    try:
        app(words)
    except SystemExit as end:
        code = end.code
    loaded[" ".join(words)] = sorted(HEAVY & set(sys.modules))
print(json.dumps([hints, loaded, code]))
"""


def test_lists_and_a_methods_wrong_setting_load_no_torch(tmp_path: Path) -> None:
    code = f"HEAVY = {set(TORCH)!r}\n{LISTS_AND_WRONG_SETTING}"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    hints, loaded, exit_code = json.loads(ended.stdout)
    # Without its type hints a setting's range is not checked.
    assert hints.keys() == set(METHODS)
    assert all(hints.values())
    assert len(loaded) == 2 + len(TABLES)
    assert {words: modules for words, modules in loaded.items() if modules} == {}
    assert exit_code == 2
    assert "Did you mean 'beta'?" in ended.stderr


def test_completion_offers_verbs_and_flags() -> None:
    from click.shell_completion import ShellComplete

    from medunlearn.cli.main import app

    complete = ShellComplete(app, {}, "medunlearn", "_MEDUNLEARN_COMPLETE")
    assert {"train", "build"} <= {item.value for item in complete.get_completions([], "")}
    assert {"amnesia", "lume"} <= {item.value for item in complete.get_completions(["build"], "")}
    assert {item.value for item in complete.get_completions(["train"], "--epo")} == {"--epochs"}


def listed(medunlearn: Callable[..., Any], what: str) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(medunlearn("list", what, "--json").stdout)}


def test_list_methods(medunlearn: Callable[..., Any]) -> None:
    rows = listed(medunlearn, "methods")
    assert tuple(rows) == METHODS
    assert {name for name, row in rows.items() if row["kind"] == "edit"} == {"chip", "manu", "merge"}
    needs = {name: (row["reference"], row["answers"], row["cost"], row["memory"]) for name, row in rows.items()}
    assert needs["ga"] == ("", "", "1", "0")
    assert needs["npo_sam"] == ("forget", "", "4 to 4.3", "1 to 2")
    assert needs["idk_dpo"] == ("forget, alternatives", "8 of refusal", "3 to 3.7", "0 to 1")
    assert needs["repselect"] == ("", "", "1", "1")
    assert "beta=0.1" in rows["npo"]["settings"]
    assert rows["rmu"]["settings"].startswith(
        "variant=openunlearning (or wmdp), layer=7 (at least 0), coefficient=2.0 (at least 0)"
    )
    assert all(name in medunlearn("list", "methods").stdout for name in METHODS)


def test_list_measures(medunlearn: Callable[..., Any]) -> None:
    rows = listed(medunlearn, "measures")
    assert set(rows) == set(metric_targets())
    assert "higher" in rows["rouge_l"]["what"]
    assert rows["cs"]["needs"] == "response, encoder"
    assert (rows["bart_score"]["range"], rows["rank"]["range"]) == ("at most 0", "0 to 1")
    assert (rows["rank"]["knows more"], rows["rouge_l"]["knows more"]) == ("lower", "higher")
    defaults = {name: row["defaults"].split(", ") for name, row in rows.items()}
    assert defaults["rouge_l"] == ["evaluate", "audit", "attack", "forget"]
    assert "evaluate (amnesia)" in defaults["token_f1"]
    assert defaults["extraction_strength"] == ["audit", "attack"]
    assert defaults["ranked_first"][0] == "evaluate"
    assert all(row["range"] and row["knows more"] for row in rows.values())


def test_list_benchmarks(medunlearn: Callable[..., Any]) -> None:
    rows = listed(medunlearn, "benchmarks")
    assert {"amnesia", "lume"} <= set(rows)
    assert "rouge_l" in rows["amnesia"]["metrics"]
    assert rows["lume"]["what"].startswith("LUME")


def test_list_attacks(medunlearn: Callable[..., Any]) -> None:
    rows = listed(medunlearn, "attacks")
    assert set(rows) >= set(ATTACKS)
    assert rows.pop("cumulative")["family"] == "reconstruction"
    rows = {name: row for name, row in rows.items() if row["family"] != name}
    assert {row["family"] for row in rows.values()} == {"membership"}
    assert rows["min_k"]["settings"] == "k=0.2 (above 0 and at most 1), eos=True"
    assert rows["min_k.muse"]["settings"] == "k=0.4 (above 0 and at most 1), eos=False"
    assert all("higher = more likely a member" in row["what"] for row in rows.values())


@pytest.mark.parametrize("what", ["sources", "papers", "tasks", "presets", "parts"])
def test_other_lists(medunlearn: Callable[..., Any], what: str) -> None:
    assert all(row["what"] for row in listed(medunlearn, what).values())


def test_list_of_something_else(medunlearn: Callable[..., Any]) -> None:
    assert "Did you mean 'methods'?" in medunlearn("list", "method", code=2).text


def test_quiet_says_nothing_but_errors(medunlearn: Callable[..., Any], bench: Path) -> None:
    for words in (("list", "tasks"), ("inspect", bench)):
        result = medunlearn(*words, "--quiet")
        assert (result.stdout, result.stderr) == ("", "")
        assert json.loads(medunlearn(*words, "--quiet", "--json").stdout)
    assert "is neither a benchmark" in medunlearn("inspect", bench.parent, "--quiet", code=2).text
