"""Adopt a model that was trained elsewhere: nothing is trained, and the result is a run like any other.

| in the run's folder | content |
|---|---|
| ``model/`` | a reference to the model's folder (:func:`medunlearn.models.delta.save_reference`); a copy of an
adapter, which is small; with ``copy_weights`` a copy of the model | | ``base/`` | of an adapter: a reference to its
base | | ``weights/`` | of an adapter with ``copy_weights``: the copy of its base that ``base/`` refers to |
"""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from medunlearn.config import AdoptSettings
from medunlearn.config.adoption import BETTER
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, resolve_use
from medunlearn.data.storage import read_json, sha256_of_json, write_json
from medunlearn.errors import InputError, ModelError
from medunlearn.generation.sharing import decoding_of
from medunlearn.models.ancestry import model_use
from medunlearn.models.delta import save_reference
from medunlearn.models.folders import (
    ADAPTER,
    BASE,
    COPY,
    MODEL,
    FileFacts,
    file_facts,
    fingerprint,
    is_delta,
)
from medunlearn.models.gguf_files import gguf_facts, is_gguf
from medunlearn.models.gguf_source import gguf_source
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.load_probe import load_facts
from medunlearn.models.model_files import covered_files
from medunlearn.models.model_source import (
    ModelSource,
    copy_model_files,
    files_needed,
    find_model,
    is_model_folder,
    with_tokenizer,
)
from medunlearn.models.prompts import TEMPLATES
from medunlearn.models.sequences import Rendering
from medunlearn.probes.sample_loss import (
    SampleLoss,
    better_template,
    chat_template_text,
    choose_opening,
    choose_template,
    default_template,
    guessing_problem,
    positions,
    sample_losses,
    uniform_loss,
)
from medunlearn.progress import progress, remark
from medunlearn.results.runs import FILE, Recording, Run, RunRecord, folder_of
from medunlearn.training.processes import join

VERB = "adopt"


def adopt(
    source: Run | str | Path,
    benchmark: Benchmark,
    settings: AdoptSettings,
    out: Path | None = None,
    *,
    beside: Path = Path("runs"),
    device: str = "auto",
    quiet: bool = False,
) -> Run:
    """Make a run from a Hugging Face folder, a hub id, a LoRA adapter, or a run on another benchmark.

    Every file that affects the model's answers is hashed. Weights must be finite, and the loss on a sample of the
    benchmark's training records or questions must be below that of uniform guessing. A complete run is returned
    unchanged.

    Args:
        benchmark: benchmark of the model's training data.
        out: folder of the run; None: below ``beside``, named after the model and the run's key.

    Raises:
        InputError: a run, a benchmark, a folder that cannot be used.
        ModelError: two models in one folder, a part is missing, a broken model, unless ``allow_broken``.
        HubError: the hub refused.
        StorageError: the disk refused; nothing partial is left.
    """
    processes = join()
    run: Run | None = None
    with processes.barrier():
        if processes.main:
            if isinstance(source, Run):
                adoption = Adoption.of_run(source, benchmark, settings)
            else:
                where = beside if out is None else out.parent
                adoption = Adoption.of(source, benchmark, settings, where=where, quiet=quiet)
            run = adoption.run(out or beside / adoption.folder_name, device=device, quiet=quiet)
    return processes.broadcast(run)


def run_of(
    model: Run | str | Path,
    benchmark: Benchmark,
    *,
    beside: Path,
    split: str | None = None,
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """The given run, the run in a folder, or a model folder adopted as a run below ``beside``.

    An adoption and its prompt settings are printed in one line.

    Args:
        split: split to validate before the model is read.
        settings: :class:`AdoptSettings` for an adopted model.

    Raises:
        InputError: neither a run nor a model; else as :func:`adopt`.
    """
    if (
        isinstance(model, Run)
        or (Path(model) / FILE).exists()
        or not (is_model_folder(Path(model)) or is_gguf(model))
    ):
        return Run.of(model)
    if split is not None:
        benchmark.split(split)
    run = adopt(model, benchmark, AdoptSettings(**settings), beside=beside, device=device, quiet=quiet)
    remark(f"{model} is no run yet: adopted as {run.folder}, {rendering_words(run)}", quiet=quiet)
    return run


def rendering_words(run: Run) -> str:
    """Template and context of an adopted run in words: ``asked in its chat template, closed book``."""
    rendering = run.rendering()
    name = {"chat": "in its chat template"}.get(
        rendering.template_name, f"in the template {rendering.template_name}"
    )
    return f"asked {name}, {'closed book' if rendering.context == 'closed_book' else 'with the note'}"


@dataclass(frozen=True)
class Adoption:
    """A hashed model from elsewhere, and the run to make of it."""

    source: ModelSource
    benchmark: Benchmark
    settings: AdoptSettings
    files: FileFacts
    base_files: FileFacts | None

    @staticmethod
    def of(
        source: str | Path,
        benchmark: Benchmark,
        settings: AdoptSettings,
        *,
        where: Path = Path("runs"),
        quiet: bool = False,
    ) -> Adoption:
        """Find a model and hash its files.

        Args:
            where: folder in which a model and a separate tokenizer are combined.
        """
        if settings.without is not None:
            benchmark.split(settings.without)
        if is_gguf(source):
            given = {name: getattr(settings, name) for name in ("base", "revision", "tokenizer")}
            model = gguf_source(Path(source), where, given, quiet=quiet)
        elif settings.tokenizer is None:
            model = find_model(source, base=settings.base, revision=settings.revision)
        else:
            model = with_tokenizer(source, settings.tokenizer, where, revision=settings.revision)
        folders = [model.folder, *([model.base.folder] if model.base else [])]
        size = sum(path.stat().st_size for folder in folders for path in covered_files(folder).values())
        with progress("hash the model's files", size, quiet=quiet) as advance:
            files, *of_base = (file_facts(folder, advance) for folder in folders)
        return Adoption(model, benchmark, settings, files, of_base[0] if of_base else None)

    @staticmethod
    def of_run(run: Run, benchmark: Benchmark, settings: AdoptSettings) -> Adoption:
        """Adoption of a run's model for another benchmark."""
        if settings.without is not None:
            benchmark.split(settings.without)
        source = ModelSource(str(run.folder), run.model)
        return Adoption(source, benchmark, settings, file_facts(run.model), None)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Fingerprints of benchmark, model and base."""
        if self.source.base is None:
            model = {"model": fingerprint(self.source.folder, self.files)}
        else:
            base = fingerprint(self.source.base.folder, self.base_files)
            model = {"model": sha256_of_json([{n: f["sha256"] for n, f in self.files.items()}, base]), "base": base}
        return {"benchmark": self.benchmark.fingerprint, **model}

    @property
    def folder_name(self) -> str:
        """Default folder name of the run: from the model's folder and the run's key."""
        source = self.source
        name = re.sub(r"[^\w.-]+", "_", source.name if source.commit else source.folder.resolve().name)
        return f"adopted-{name[:40]}-{Recording.key_of(VERB, self.settings, self.inputs)[:8]}"

    def run(self, out: Path, *, device: str = "auto", quiet: bool = False) -> Run:
        """Check the model, and record the run."""
        sources: dict[str, DataUse | None] = {"the benchmark": self.benchmark.data_use}
        sources |= {name: model_use(name) for name in self.source.lineage}
        use = resolve_use(self.settings.data_use, sources)
        settings, benchmark = self.settings, self.benchmark
        recording = Recording(out, VERB, settings.role, settings, self.inputs, data_use=use)
        if recording.done:
            return Run.open(out)
        recording.info.lineage, recording.info.texts = self.source.lineage, benchmark.texts_fingerprint
        with recording.running():
            try:
                self._write(out)
                with recording.stage("load"):
                    live = self._loaded(out, device)
                with recording.stage("measure"):
                    recording.info.results = self._measured(live, quiet=quiet)
                del live
                if settings.copy_weights:
                    with recording.stage("copy"):
                        self._copy(out, quiet=quiet)
            except BaseException:
                for name in (MODEL, BASE, COPY):
                    shutil.rmtree(out / name, ignore_errors=True)
                raise
            recording.info.model_files = file_facts(out / MODEL)
        return Run(out, recording.info)

    def _loaded(self, out: Path, device: str) -> LanguageModel:
        """The model, loaded like in later commands; errors name the user's path."""
        settings = self.settings
        how: dict[str, Any] = {"weights": settings.weights, "allow_broken": settings.allow_broken}
        try:
            return load_model(out / MODEL, device=device, images=self.benchmark.folder, **how)
        except ModelError as error:
            raise ModelError(str(error).replace(str(out / MODEL), self.source.name)) from error

    def _write(self, out: Path) -> None:
        """Write the references, and copy an adapter."""
        for name in (MODEL, BASE, COPY):
            shutil.rmtree(out / name, ignore_errors=True)
        if self.source.base is None or self.base_files is None:
            save_reference(self.source.folder, out / MODEL, self.files)
            return
        save_reference(self.source.base.folder, out / BASE, self.base_files)
        copy_model_files(files_needed(self.source.folder), out / MODEL)
        facts = read_json(out / MODEL / ADAPTER)
        write_json(out / MODEL / ADAPTER, {**facts, "base_model_name_or_path": f"../{BASE}"})

    def _copy(self, out: Path, *, quiet: bool) -> None:
        """Copy the full model into the run, replacing the reference to it.

        Raises:
            ModelError: it changed during copying.
        """
        base = self.source.base
        folder, files = (self.source.folder, self.files) if base is None else (base.folder, self.base_files or {})
        if is_delta(folder):
            raise InputError(
                f"{folder} contains only the changed tensors of another model. `medunlearn export` makes a full "
                "model; then use that with --base, or leave --copy-weights out."
            )
        copy = out / (COPY if base else MODEL)
        shutil.rmtree(copy, ignore_errors=True)
        copy_model_files(files_needed(folder), copy, quiet=quiet)
        now = file_facts(copy)
        if any(files.get(name, {}).get("sha256") != facts["sha256"] for name, facts in now.items()):
            raise ModelError(f"{folder} changed during copying. Run the command again.")
        if base is not None:
            save_reference(copy, out / BASE, now, at=Path("..") / COPY)

    def _measured(self, live: LanguageModel, *, quiet: bool) -> dict[str, Any]:
        """Results for ``run.json``: prompt settings, losses, tokenizer, and origin.

        Raises:
            ModelError: the model predicts nothing better than uniform guessing, unless ``allow_broken``.
        """
        settings, tokenizer = self.settings, live.tokenizer
        template = None if settings.template == BETTER else settings.template
        rendering = Rendering(
            template or default_template(tokenizer, self.source.folder),
            settings.context,
            positions(live, settings.max_length),
            settings.long_notes,
            settings.images,
        )
        live.model.eval()
        how: dict[str, Any] = {
            "without": settings.without,
            "sample": settings.sample,
            "seed": settings.seed,
            "batch_size": settings.batch_size,
        }
        opening = choose_opening(live, self.benchmark, rendering, **how)
        rendering = replace(rendering, opening="prompt" if opening is None else opening.opening)
        with progress("loss on a sample", 4 * settings.sample, quiet=quiet) as advance:
            losses = sample_losses(live, self.benchmark, rendering, **how, advance=advance)
        uniform = uniform_loss(live)
        problems = list(live.problems)
        if problem := guessing_problem(losses, uniform):
            problems.append(problem)
            self._refuse_guessing(problem)
        choice = None
        if settings.template == BETTER:
            choice = choose_template(losses, rendering.template_name)
            better_name = next(name for name in TEMPLATES if name == choice.template)
            rendering = replace(rendering, template=better_name)
        elif better := better_template(losses, rendering.template_name):
            remark(
                f"the answers have a lower loss in the template {better.template} ({better.words}) than in "
                f"{rendering.template_name}, in which later commands ask: --template chooses",
                quiet=quiet,
            )
        chat = chat_template_text(tokenizer)
        return {
            "rendering": asdict(rendering.dated(tokenizer)),
            "benchmark_folder": folder_of(self.benchmark),
            "steps": 0,
            "final_loss": None,
            "parameters": sum(tensor.numel() for tensor in live.model.parameters()),
            "losses": [asdict(loss) for loss in losses],
            "uniform_loss": uniform,
            **({} if choice is None else {"template_choice": asdict(choice)}),
            **({} if opening is None else {"opening_choice": asdict(opening)}),
            "health": {"problems": problems},
            "tokenizer": {
                "class": type(tokenizer).__name__,
                "tokens": len(tokenizer),
                "chat_template": None if chat is None else sha256_of_json(chat),
            },
            "probe": load_facts(live, decoding_of),
            "source": self._source_facts(),
            "saved": {"form": "copy" if settings.copy_weights else "reference"},
        }

    def _refuse_guessing(self, problem: str) -> None:
        if not self.settings.allow_broken:
            raise ModelError(
                f"{self.source.name}: {problem}. Is it the model that was trained on this benchmark's texts, with "
                "the tokenizer and the base that it was trained with? `medunlearn adopt --allow-broken` adopts "
                "it anyway."
            )

    def _source_facts(self) -> dict[str, Any]:
        def facts(source: ModelSource, files: FileFacts) -> dict[str, Any]:
            commit = {"commit": source.commit} if source.commit else {}
            return {"name": source.name, "folder": str(source.folder.resolve()), **commit, "files": dict(files)}

        own = facts(self.source, self.files)
        if (gguf := gguf_facts(self.source.folder)) is not None:
            own["gguf"] = gguf
        if self.source.base is None or self.base_files is None:
            return {"kind": "full", **own}
        return {"kind": "adapter", **own, "base": facts(self.source.base, self.base_files)}


def adopted_losses(run: Run) -> list[SampleLoss]:
    """The losses measured at adoption."""
    return [SampleLoss(**loss) for loss in RunRecord.read(run.folder).results["losses"]]
