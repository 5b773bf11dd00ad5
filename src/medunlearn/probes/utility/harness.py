"""lm-evaluation-harness (EleutherAI): run its tasks on a model in memory.

It is an optional dependency, imported when first needed. The model is passed unchanged, even as a delta or with a
LoRA adapter, and nothing is written to disk. The random state of training is not touched.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from jinja2 import TemplateError

from medunlearn.config import UtilitySettings
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import ConfigError, InputError, ModelError, UnknownNameError, first_line
from medunlearn.models.load import LanguageModel
from medunlearn.probes.utility.numbers import Result, TaskItem
from medunlearn.template_process import chat_templates_apart
from medunlearn.training.processes import Processes
from medunlearn.training.turns import in_turns

_CHUNK = 16
"""Batches between two looks at the clock and at signals."""

Bar = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""Number of requests -> a block, whose value is told how many more are done."""


def fingerprint(settings: UtilitySettings) -> dict[str, str]:
    """Inputs of the numbers besides settings and model: the harness version, and files of ``include``.

    Raises:
        InputError: the harness is not installed, or there is no such folder.
    """
    if find_spec("lm_eval") is None:
        raise InputError(
            "Utility is measured by lm-evaluation-harness, which is not installed: pip install "
            "'medunlearn[utility]' (or pip install lm-eval)."
        )
    inputs = {"lm-eval": metadata.version("lm-eval")}
    if settings.include is not None:
        if not settings.include.is_dir():
            raise InputError(f"There is no folder {settings.include}: include= is the folder of your task files.")
        files = sorted(path for path in settings.include.rglob("*") if path.is_file() and path.suffix != ".pyc")
        inputs["include"] = sha256_of_json([[path.name, path.read_bytes().hex()] for path in files])
    return inputs


def task_manager(settings: UtilitySettings) -> Any:
    """The harness's index of tasks. Its own 10,000 files are only searched if one of them is named.

    Raises:
        UnknownNameError: no such task; names the nearest valid one.
        InputError: the harness is not installed, or there is no such folder.
    """
    fingerprint(settings)
    if settings.include is not None:
        manager = _manager(str(settings.include), defaults=False)
        if set(settings.tasks) <= set(manager.all_tasks):
            return manager
    manager = _manager(str(settings.include) if settings.include else None, defaults=True)
    for name in settings.tasks:
        if name not in manager.all_tasks:
            raise UnknownNameError("task of lm-evaluation-harness", name, manager.all_tasks)
    return manager


@cache
def _manager(include: str | None, *, defaults: bool) -> Any:
    from lm_eval.tasks import TaskManager

    with _hide_output():
        return TaskManager(include_path=include, include_defaults=defaults)


def run_tasks(
    language_model: LanguageModel,
    settings: UtilitySettings,
    *,
    processes: Processes | None = None,
    bar: Bar = lambda total: nullcontext(lambda count: None),
) -> tuple[list[TaskItem], list[Result], list[tuple[str, str, bool]]]:
    """Run all items of the tasks on a model.

    Returns:
        The items, the tasks' numbers, and (reference, answer, finished) for each item with a generated answer; the
        harness does not report how it ended, so it counts as finished.

    Args:
        language_model: in evaluation mode.
        processes: processes with the same model that share the requests; all make the same call and get all
            results.

    Raises:
        UnknownNameError: no such task.
        InputError: a task that cannot be loaded (its data, say), or the harness is not installed.
        ConfigError: no task has the metric.
    """
    manager = task_manager(settings)
    from lm_eval.evaluator import evaluate

    with _hide_output(), _own_random_numbers(language_model.device), _chat_templates(settings.chat):
        loaded = _load_tasks(manager, settings)
        model = _harness_model(language_model, settings.batch_size, processes or Processes(), bar)
        evaluated = evaluate(
            lm=model,
            task_dict=loaded,
            limit=settings.limit,
            bootstrap_iters=settings.replicates,
            apply_chat_template=settings.chat,
            fewshot_as_multiturn=settings.chat,
        )
    results = list(_results(evaluated, loaded))
    metrics = {result.metric for result in results}
    if settings.metric is not None and settings.metric not in metrics:
        raise ConfigError([f"metric={settings.metric!r}: the tasks have {', '.join(sorted(metrics))}."])
    return list(_items(evaluated["samples"])), results, list(_generated_samples(evaluated["samples"]))


@contextmanager
def _chat_templates(used: bool) -> Iterator[None]:
    """Context in which the harness renders chat templates within limits.

    Raises:
        ModelError: the template is wrong.
    """
    try:
        with chat_templates_apart("The chat template") if used else nullcontext():
            yield
    except TemplateError as error:
        raise ModelError(f"The chat template cannot be filled in: {first_line(error)}.") from error


def _load_tasks(manager: Any, settings: UtilitySettings) -> Any:
    """The tasks with their data. Raises InputError: tasks or data cannot be loaded."""
    try:
        loaded = manager.load(list(settings.tasks))
        for task in loaded["tasks"].values():
            default_shots = task.get_config("num_fewshot")
            if default_shots is None or (settings.fewshot is not None and default_shots != 0):
                task.set_config(key="num_fewshot", value=settings.fewshot or 0)
            task.set_fewshot_seed(seed=settings.seed)
    except Exception as error:  # data sets and task files raise errors of many libraries
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"The tasks {', '.join(settings.tasks)} cannot be loaded: {type(error).__name__}: {lines[0][:300]} "
            "Their data come from a hub and are cached: download them once on a machine with a network (HF_HOME "
            "sets the cache folder), or use a task with local data (include=FOLDER)."
        ) from error
    return loaded


def _items(samples: dict[str, list[dict[str, Any]]]) -> Iterator[TaskItem]:
    for task, rows in samples.items():
        for row in rows:
            for metric in row["metrics"]:
                value = row[metric]
                single = isinstance(value, int | float | np.integer | np.floating)
                yield TaskItem(
                    task, int(row["doc_id"]), metric, str(row["filter"]), float(value) if single else None
                )


def _generated_samples(samples: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, str, bool]]:
    for rows in samples.values():
        for row in rows:
            for answers in row["resps"]:
                if answers and isinstance(answers[0], str):
                    yield str(row["target"]), answers[0], True


def _results(evaluated: Any, loaded: Any) -> Iterator[Result]:
    groups = {
        name: tuple(task.task_name for task in group.get_all_tasks()) for name, group in loaded["groups"].items()
    }
    for name, numbers in evaluated["results"].items():
        leaves = groups.get(name, (name,))
        shots = {evaluated["n-shot"].get(leaf) for leaf in leaves}
        for key, value in numbers.items():
            metric, comma, kind = key.partition(",")
            if not comma or metric.endswith("_stderr") or not isinstance(value, int | float | np.number):
                continue
            error = numbers.get(f"{metric}_stderr,{kind}")
            yield Result(
                name,
                leaves,
                metric,
                kind,
                float(value),
                float(error) if isinstance(error, int | float | np.number) else None,
                (evaluated["higher_is_better"].get(name) or {}).get(metric),
                str(evaluated["versions"].get(name, "")),
                shots.pop() if len(shots) == 1 else None,
            )


def _harness_model(language_model: LanguageModel, batch_size: int, processes: Processes, bar: Bar) -> Any:
    from lm_eval.models.huggingface import HFLM

    class Shared(HFLM):  # type: ignore[misc]
        """The harness's wrapper of a Hugging Face model, with requests shared by processes."""

        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> list[Any]:
            return self._shared(super().loglikelihood, requests)

        def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = True) -> list[Any]:
            return self._shared(super().loglikelihood_rolling, requests)

        def generate_until(self, requests: list[Any], disable_tqdm: bool = True) -> list[Any]:
            return self._shared(super().generate_until, requests)

        def _shared(self, work: Callable[[list[Any]], list[Any]], requests: list[Any]) -> list[Any]:
            first, last = (len(requests) * rank // processes.world for rank in (processes.rank, processes.rank + 1))
            shard, size = requests[first:last], _CHUNK * batch_size
            answers: list[Any] = []
            with processes.barrier(), in_turns(language_model.model), bar(len(shard)) as advance:
                for start in range(0, len(shard), size):
                    answers += work(chunk := shard[start : start + size])
                    advance(len(chunk))
            return [answer for part in processes.gather(answers) for answer in part]

    return Shared(pretrained=language_model.model, tokenizer=language_model.tokenizer, batch_size=batch_size)


@contextmanager
def _own_random_numbers(device: torch.device) -> Iterator[None]:
    """Context that restores the global random generators at its end."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextmanager
def _hide_output() -> Iterator[None]:
    """Context that hides the harness's progress bars and messages, but not its errors."""
    import datasets
    import lm_eval.api.model
    import lm_eval.api.task
    import lm_eval.models.huggingface

    log = logging.getLogger("lm_eval")
    level, bars = log.level, datasets.are_progress_bars_disabled()
    modules: list[Any] = [lm_eval.api.model, lm_eval.api.task, lm_eval.models.huggingface]
    before = [module.tqdm for module in modules]
    log.setLevel(logging.ERROR)
    # Standard errors by bootstrap are otherwise computed in forked processes, beside torch's threads.
    os.environ.setdefault("DISABLE_MULTIPROC", "1")
    datasets.disable_progress_bars()
    for module, bar in zip(modules, before, strict=True):
        module.tqdm = lambda *args, bar=bar, **options: bar(*args, **{**options, "disable": True})
    try:
        yield
    finally:
        for module, bar in zip(modules, before, strict=True):
            module.tqdm = bar
        if not bars:
            datasets.enable_progress_bars()
        log.setLevel(level)
