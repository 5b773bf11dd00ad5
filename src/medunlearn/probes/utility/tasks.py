"""Export of a benchmark as tasks of lm-evaluation-harness.

The folder has a YAML and a JSONL file per task, a ``utils.py`` that calls our metrics, and a README. A task covers
one side, fold, kind and, if the benchmark's paper breaks numbers down, node (LUME's task); a group covers a side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from medunlearn.config import EvaluateSettings, TaskExportSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.leftovers import holds_nothing
from medunlearn.data.records import SIDES
from medunlearn.data.storage import write_text
from medunlearn.errors import ConfigError, InputError
from medunlearn.metrics import get_metric
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.prompts import render
from medunlearn.models.sequences import Rendering
from medunlearn.paper import paper_of
from medunlearn.probes.probe_set import refuse_other_material
from medunlearn.probes.question_selection import material_of, questions_to_ask
from medunlearn.probes.questioning import longest_answer
from medunlearn.reports.view import ResultView, plain_table
from medunlearn.results.runs import Run

UTILS = '''"""What the tasks beside this file call; pip install medunlearn."""

from pathlib import Path

from datasets import Dataset

from medunlearn.metrics.harness_metrics import documents, mean_of_scored, process_results

__all__ = ["load", "mean_of_scored", "process_results"]


def load(file, **_):
    return {"test": Dataset.from_list(documents(Path(__file__).parent / file))}
'''


class ExportedTasks(NamedTuple):
    """Exported tasks: the folder for ``--include_path``, a group per side, task -> number of its questions."""

    folder: Path
    groups: tuple[str, ...]
    tasks: Mapping[str, int]

    def view(self) -> ResultView:
        """The tasks and their place."""
        data = {"folder": str(self.folder), "groups": list(self.groups), "tasks": dict(self.tasks)}
        table = plain_table(("task", "questions"), self.tasks.items(), "tasks")
        return ResultView(data, [table], notes=[f"{self.folder}: groups {', '.join(self.groups)}"])


def export_tasks(benchmark: Benchmark, settings: TaskExportSettings, out: Path) -> ExportedTasks:
    """Write a benchmark's questions as tasks.

    Raises:
        ConfigError: a metric that needs more than the response, or no question of these folds.
        InputError: an unknown split or metric; a folder that is not empty.
    """
    if out.exists() and (not out.is_dir() or not holds_nothing(out)):
        raise InputError(f"{out} is not an empty folder. Choose another --out.")
    refuse_other_material(settings.probes, material_of(benchmark))
    rendering, limit = _like(benchmark, settings)
    metrics = _metrics(benchmark, settings)
    evaluation = {name: getattr(settings, name) for name in ("split", "folds", "limit", "subjects", "seed")}
    split, grouping = benchmark.split(settings.split), paper_of(benchmark.builder).grouping
    sides, prefix = benchmark.sides(split), _slug("medunlearn", benchmark.builder, split.name)
    parts: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for question in questions_to_ask(benchmark, split, check(EvaluateSettings, evaluation)):
        record, side = benchmark.record[question.record_id], sides[question.record_id]
        prompt = render(question, record.text, template=rendering.template, context=rendering.context)
        node = record.groups.get(grouping.level, "") if grouping else ""
        name = _slug(prefix, side, question.fold, node, question.kind)
        row = {
            "question_id": question.question_id,
            "side": side,
            "prompt": f"{prompt.shared}{prompt.own}",
            "question": question.question,
            "answer": question.answer,
            "metrics": list(metrics),
        }
        parts.setdefault(side, {}).setdefault(name, []).append(row)
    groups = {side: _slug(prefix, side) for side in SIDES if side in parts}
    for side, group in groups.items():
        for name, part in parts[side].items():
            write_text(out / f"{name}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in part))
            write_text(out / f"{name}.yaml", _yaml(_task(name, side, metrics, limit)))
        weighed = [{"metric": metric, "aggregation": "mean", "weight_by_size": True} for metric in metrics]
        facts = {"group": group, "task": list(parts[side]), "aggregate_metric_list": weighed}
        write_text(out / f"{group}.yaml", _yaml({**facts, "metadata": {"version": 1.0}}))
    write_text(out / "utils.py", UTILS)
    write_text(out / "README.md", _readme(benchmark, rendering, tuple(groups.values())))
    counts = {name: len(part) for side in parts.values() for name, part in side.items()}
    return ExportedTasks(out, tuple(groups.values()), counts)


def _like(benchmark: Benchmark, settings: TaskExportSettings) -> tuple[Rendering, int]:
    """Template of questions, and the longest response."""
    if settings.like is None:
        rendering = Rendering(settings.template or "plain", settings.context or "closed_book")
        words = max(len(question.answer.split()) for question in benchmark.questions)
        return rendering, settings.max_new_tokens or 2 * words + 1
    run = Run.open(settings.like)
    rendering = run.rendering(settings.template, settings.context)
    if rendering.template == "chat":
        ask = "Ask with --template plain, and give lm_eval --apply_chat_template."
        raise ConfigError([f"like: the run was asked with --template chat. {ask}"])
    return rendering, settings.max_new_tokens or longest_answer(load_tokenizer(run.model), benchmark)


def _metrics(benchmark: Benchmark, settings: TaskExportSettings) -> tuple[str, ...]:
    """The metrics that the harness can compute: those that need only the response."""
    names = settings.metrics or paper_of(benchmark.builder).default_measures
    light = [name for name in names if get_metric(name).needs == ("response",)]
    problems = [
        f"metrics={name}: it needs {', '.join(get_metric(name).needs)}, and a task has responses alone."
        for name in settings.metrics
        if name not in light
    ]
    if problems:
        raise ConfigError(problems)
    return tuple(light)


def _slug(*parts: str) -> str:
    return re.sub(r"\W+", "_", "_".join(part for part in parts if part)).strip("_").lower()


class _Function(str):
    """A function of ``utils.py``, written with the harness's YAML tag."""


class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes functions with their tag."""


_Dumper.add_representer(_Function, lambda dumper, name: dumper.represent_scalar("!function", f"utils.{name}"))


def _yaml(value: Mapping[str, Any]) -> str:
    return yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _task(name: str, side: str, metrics: Sequence[str], limit: int) -> dict[str, Any]:
    return {
        "task": name,
        "custom_dataset": _Function("load"),
        "dataset_kwargs": {"file": f"{name}.jsonl"},
        "output_type": "generate_until",
        "test_split": "test",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{answer}}",
        "process_results": _Function("process_results"),
        # Greedy, ended by the EOS token alone.
        "generation_kwargs": {"until": [], "do_sample": False, "max_gen_toks": limit},
        "num_fewshot": 0,
        "metric_list": [
            {"metric": metric, "aggregation": _Function("mean_of_scored"), "higher_is_better": side == "retain"}
            for metric in metrics
        ],
        "metadata": {"version": 1.0},
    }


def _readme(benchmark: Benchmark, rendering: Rendering, groups: Sequence[str]) -> str:
    names = ",".join(groups)
    return f"""# {benchmark.name} as tasks of lm-evaluation-harness

    pip install medunlearn lm-eval
    lm_eval --model hf --model_args pretrained=MODEL --include_path . --tasks {names}

Template {rendering.template_name}, context {rendering.context}. On forget, higher = remembers more. The harness's
standard errors take questions as independent, which those on one subject are not: `medunlearn evaluate` gives
intervals over subjects. Source: {benchmark.source}. Licence: {benchmark.licence}. Data use: {benchmark.data_use}:
the files hold the benchmark's questions and answers, and go where it may go.
"""
