"""Export a run's model as a self-contained Hugging Face folder, and optionally to a hub."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, recorded_use
from medunlearn.data.leftovers import holds_nothing, part_of, part_pattern, remove_stray_parts
from medunlearn.data.lineage import LINEAGE, Lineage, read_lineage, write_lineage
from medunlearn.errors import HubError, InputError
from medunlearn.models.ancestry import model_use
from medunlearn.models.folders import (
    base_place,
    fingerprint,
    has_fingerprint,
    is_adapter,
    is_delta,
    is_reference,
    model_folder,
    stored_weights,
    telling_files,
)
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.model_source import copy_model_files, tokenizer_files
from medunlearn.models.vocabulary import Vocabulary, forgotten_subjects, vocabulary_owners
from medunlearn.probes.sample_loss import recorded_template
from medunlearn.registry import load
from medunlearn.results.runs import FILE, Run
from medunlearn.study.model_card import CARD, write_card, write_section
from medunlearn.study.presets import is_tiny

TITLE = "## Whose strings the tokenizer holds"
PUSH_FLAG = "--allow-push"
READ_LEDGER = "medunlearn.request.case.ledger:read_ledger"
CARRY_LEDGER = "medunlearn.request.case.card_section:carry_to_copy"


def export(
    source: Path | str,
    out: Path,
    *,
    push: str | None = None,
    public: bool = False,
    permitted: bool = False,
    confirm: Callable[[str], bool] | None = None,
    benchmark: Benchmark | None = None,
    split: str | None = None,
    show_text: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write model and tokenizer as a full folder that transformers loads without medunlearn.

    A delta is applied to its base; a LoRA adapter (in PEFT's format) is merged into its base. The weights keep
    their type; after a merge they have the base's, fp32 for a base on a hub. A folder with the same model is left
    unchanged. A model card and ``lineage.json`` record the data use. The ledger of deletion requests is copied,
    with a section in the card; ``push`` does not send the ledger.

    Args:
        source: a run, or a model folder.
        out: the new folder; a run or another model there is refused.
        push: hub id ``org/name`` to push to, with the hub's login.
        public: make the repository public; otherwise it is private, and an existing public one is refused.
        permitted: the user allows pushing a model of credentialed data, or of unrecorded data.
        confirm: function that asks the user about a model of unrecorded data; None refuses it.
        benchmark: the model's benchmark: report, also in README.md, the number of tokenizer strings that only one
            subject, or only the forget set, has.
        split: split of that forget set; none: the one that the run's model forgot or was trained without.
        show_text: pass the strings and their subjects to ``say`` too; README.md never has them.
        say: called with lines on these strings.

    Raises:
        InputError: no model, an unusable folder, not a hub id, or a push that needs permission; a ledger that is
            broken or another model's.
        ModelError: the model cannot be loaded, as in :func:`medunlearn.models.load.load_model`.
        StorageError: the disk refused; nothing partial is left.
        HubError: the hub refused; the folder is complete.
    """
    _check(source, out, push, public, permitted)
    use = "credentialed" if recorded_use(out) == "credentialed" else model_use(source)
    if push is not None and not permitted:
        _refuse_push(source, push, use, confirm)
    load(READ_LEDGER)(Path(source))
    folder = Path(model_folder(source))
    run = Run.open(source) if (Path(source) / FILE).exists() else None
    split = _split(run, benchmark, split)
    lineage = Lineage(data_use=use, template=recorded_template(Path(source)))
    # A folder without weights has no type; loading it says what is missing.
    language_model = load_model(folder, device="cpu", weights=stored_weights(folder))
    # Written beside its place and moved there whole, so that a full disk or a kill leaves no half of a model.
    scratch = part_of(out.absolute())
    remove_stray_parts(scratch.parent, part_pattern(out.absolute().name))
    try:
        files = _write_model(language_model, folder, scratch)
        _describe(scratch, lineage)
        _move(scratch, out, Path(source), lineage)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if (wider := _wider_weights(run, out)) is not None:
        say(wider)
    if benchmark is not None:
        backend = getattr(language_model.tokenizer, "backend_tokenizer", None)
        _say_whose(backend, run, benchmark, split, out, say, show_text=show_text)
    if push is not None:
        _push(out, [*files, CARD, LINEAGE], push, public)
    return out


def _wider_weights(run: Run | None, out: Path) -> str | None:
    """A sentence on weights that are wider than those of the model that a run began with; None if they are not."""
    origin = Path(run.info.lineage[0]) if run is not None and run.info.lineage else None
    if origin is None or not (origin / "config.json").exists():
        return None
    before, now = stored_weights(origin), stored_weights(out)
    if before == now or now != "fp32":
        return None
    return (
        f"The weights are {now}, since training computed in it; {origin} has {before}, half the size. Rounding "
        "them back loses small changes: measure the rounded model before it is used."
    )


def _write_model(language_model: LanguageModel, folder: Path, scratch: Path) -> list[str]:
    """Write the whole model; returns the names of its files."""
    whole = _whole_folder(folder)
    if whole is None:
        language_model.save(scratch)
    else:
        # The same model to the byte; whatever else lies in that folder stays there.
        index = whole.glob("*.safetensors.index.json")
        copy_model_files({*telling_files(whole), *tokenizer_files(whole), *index}, scratch)
    return sorted(file.relative_to(scratch).as_posix() for file in scratch.rglob("*") if file.is_file())


def _move(scratch: Path, out: Path, source: Path, lineage: Lineage) -> None:
    """Move a written folder into place; if the same model is there already, only its description is updated.

    Raises:
        InputError: there is another model.
    """
    if holds_nothing(out):
        _carry_requests(source, scratch)
        shutil.rmtree(out, ignore_errors=True)
        scratch.replace(out)
    elif not has_fingerprint(out, fingerprint(scratch, rule=1)):  # files of others may lie beside it
        raise InputError(f"{out} contains another model. Choose another --out, or remove it.")
    else:
        is_described = read_lineage(out, strict=False) == read_lineage(scratch)
        if not is_described or not all((out / name).exists() for name in (CARD, LINEAGE)):
            _describe(out, lineage)
        _carry_requests(source, out)


def _whole_folder(folder: Path) -> Path | None:
    """The folder of a model, if it is a full one; None if it consists of several."""
    while is_reference(folder):
        folder = base_place(folder)
    return None if is_delta(folder) or is_adapter(folder) else folder


def _split(run: Run | None, benchmark: Benchmark | None, split: str | None) -> str | None:
    """The split whose forget set is searched for in the tokenizer.

    Raises:
        InputError: a split without a benchmark; another benchmark than the run's; an unknown split.
    """
    if benchmark is None:
        if split is not None:
            raise InputError("--split is for --benchmark: name the benchmark's folder too.")
        return None
    if run is not None and run.info.benchmark not in (None, benchmark.fingerprint):
        raise InputError(
            f"{run.folder} was made on another benchmark than {benchmark.name!r}. Name that one's folder."
        )
    split = split or (None if run is None else run.info.made_for)
    if split is not None:
        benchmark.split(split)
    return split


def _say_whose(
    tokenizer: Any,
    run: Run | None,
    benchmark: Benchmark,
    split: str | None,
    out: Path,
    say: Callable[[str], None],
    *,
    show_text: bool,
) -> None:
    """Report tokenizer strings with their owners, and write the counts into the model card."""
    lines = ["The tokenizer has no tokenizer.json: whose strings it holds was not looked at."]
    if tokenizer is not None:
        forgotten = set[str]() if split is None else forgotten_subjects(benchmark, split)
        owners = vocabulary_owners(Vocabulary.of(tokenizer), benchmark, forgotten)
        lines = owners.lines(benchmark.subject_level)
        if run is None or not is_tiny(run):
            lines.append("A tokenizer that was not fitted on these texts has such strings by chance.")
        for owned in (owners.forgotten or owners.private) if show_text else ():
            say(f"{', '.join(owned.subjects)}: {owned.text}")
    for line in lines:
        say(line.replace("**", ""))
    write_section(out / CARD, "\n\n".join((TITLE, *lines)))


def _carry_requests(source: Path, out: Path) -> None:
    """Copy a model's ledger, and describe its requests in the model card."""
    if section := load(CARRY_LEDGER)(source, out):
        write_section(out / CARD, section)


def _check(source: Path | str, out: Path, push: str | None, public: bool, permitted: bool) -> None:
    """Make all checks that need no loaded model."""
    folder = Path(source)
    if not folder.is_dir():
        raise InputError(f"There is no run or model folder {source}.")
    if (folder / FILE).exists():
        Run.open(folder)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    if out.is_dir() and not holds_nothing(out) and (is_delta(out) or not (out / "config.json").exists()):
        raise InputError(f"{out} is not empty and contains no exported model. Choose another --out.")
    if push is not None and not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", push):
        raise InputError(f"--push {push!r} is not a hub id. Write it as org/name.")
    if (public or permitted) and push is None:
        flag = "--public" if public else PUSH_FLAG
        raise InputError(f"{flag} is for the repository that --push sends to: give --push org/name too.")


def _refuse_push(source: Path | str, push: str, use: DataUse | None, confirm: Callable[[str], bool] | None) -> None:
    """Refuse a push without permission; ask the user if the data is not recorded.

    Raises:
        InputError: the model's data is credentialed, or unknown and not confirmed.
    """
    permit = f"pass {PUSH_FLAG} if you are permitted to send it there."
    if use == "credentialed":
        raise InputError(
            f"{source} was trained on credentialed data, and its weights may repeat it: it is not pushed to "
            f"{push}. Leave out --push, or {permit}"
        )
    unknown = f"Nobody recorded what {source} was trained on"
    if use is None and not (confirm and confirm(f"{unknown}. Push it to {push}?")):
        raise InputError(
            f"{unknown}, so it counts as credentialed and is not pushed to {push}. Leave out --push, or {permit}"
        )


def _describe(folder: Path, lineage: Lineage) -> None:
    """Write the model card and the lineage, without names of benchmarks, splits or paths, which may name
    patients.
    """
    write_lineage(folder, lineage)
    write_card(folder, lineage.data_use, lineage.template)


def _push(out: Path, files: list[str], name: str, public: bool) -> None:
    """Send the files of the exported folder in one commit.

    Raises:
        InputError: the repository is public without ``public``.
        HubError: the hub refused.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        api.create_repo(name, private=not public, exist_ok=True)
        is_exposed = not public and not api.repo_info(name).private
        if not is_exposed:
            api.upload_folder(repo_id=name, folder_path=out, allow_patterns=files)
    except Exception as error:  # the hub's client raises errors of many libraries
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise HubError(
            f"{out} is written, but {name} was not pushed: {reason} Check the network, and log in with "
            "`hf auth login` or HF_TOKEN; then run the command again."
        ) from error
    if is_exposed:
        raise InputError(
            f"{name} is public on the hub, so nothing was pushed. Make it private there, choose another name, or "
            "pass --public."
        )
