"""A run's model as a Hugging Face folder that stands alone, and on a hub if asked for."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from glob import escape
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.leftovers import holds_nothing, part_of, remove_stray_parts
from medunlearn.data.storage import write_text
from medunlearn.errors import HubError, InputError
from medunlearn.models.folders import fingerprint, is_delta, model_folder, stored_weights
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.vocabulary import Vocabulary, forgotten_subjects, vocabulary_owners
from medunlearn.pipeline.presets import is_tiny
from medunlearn.results.runs import FILE, Run

TITLE = "## Whose strings the tokenizer holds"


def export(
    source: Path | str,
    out: Path,
    *,
    push: str | None = None,
    private: bool = False,
    benchmark: Benchmark | None = None,
    split: str | None = None,
    show_text: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write model and tokenizer as a full folder that transformers loads without medunlearn.

    A delta is put together with its base; a LoRA adapter (a folder that PEFT wrote) is merged into its base. The
    weights keep their type; where an adapter was merged they have its base's, fp32 if that is on a hub. A folder
    that holds the same model already is left as it is.

    Args:
        source: a run, or a model folder.
        out: the new folder; a run or another model there is refused.
        push: hub id ``org/name`` to send it to as well; the hub's login is used.
        private: make that repository private, if the push makes it.
        benchmark: of the model; it is then said, and written into the folder's README.md, how many strings of the
            tokenizer only one subject has, and only the forget set.
        split: whose forget set; none: the split that the run's model forgot or was trained without.
        show_text: tell ``say`` the strings and their subjects too; the README.md never has them.
        say: is told what is found.

    Raises:
        InputError: no model there, a folder that cannot be used, or no hub id.
        ModelError: the model cannot be loaded, as of :func:`medunlearn.models.load.load_model`.
        StorageError: the disk refused; nothing is left half written.
        HubError: the hub refused; the folder is whole.
    """
    _check(source, out, push, private)
    folder = Path(model_folder(source))
    run = Run.open(source) if (Path(source) / FILE).exists() else None
    split = _split(run, benchmark, split)
    # A folder without weights has no type; loading it says what is missing.
    language_model = load_model(folder, device="cpu", weights=stored_weights(folder))
    # Written beside its place and moved there whole, so that a full disk or a kill leaves no half of a model.
    scratch = part_of(out.absolute())
    remove_stray_parts(scratch.parent, f".{escape(out.absolute().name)}.*.part")
    try:
        language_model.save(scratch)
        if holds_nothing(out):
            shutil.rmtree(out, ignore_errors=True)
            scratch.replace(out)
        elif fingerprint(out) != fingerprint(scratch):
            raise InputError(f"{out} holds another model. Choose another --out, or remove it.")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if benchmark is not None:
        backend = getattr(language_model.tokenizer, "backend_tokenizer", None)
        _say_whose(backend, run, benchmark, split, out, say, show_text=show_text)
    if push is not None:
        _push(language_model, out, push, private)
    return out


def _split(run: Run | None, benchmark: Benchmark | None, split: str | None) -> str | None:
    """The split whose forget set the tokenizer is searched for.

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
    """Say whose strings the tokenizer holds, and write the numbers into the model card."""
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
    card = out / "README.md"
    before = card.read_text(encoding="utf-8").partition(TITLE)[0].rstrip() if card.exists() else "# Exported model"
    write_text(card, "\n\n".join((before, TITLE, *lines)) + "\n")


def _check(source: Path | str, out: Path, push: str | None, private: bool) -> None:
    """Refuse before a model is loaded what can be refused then."""
    folder = Path(source)
    if not folder.is_dir():
        raise InputError(f"There is no run or model folder {source}.")
    if (folder / FILE).exists():
        Run.open(folder)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    if out.is_dir() and not holds_nothing(out) and (is_delta(out) or not (out / "config.json").exists()):
        raise InputError(f"{out} is not empty and holds no exported model. Choose another --out.")
    if push is not None and not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", push):
        raise InputError(f"--push {push!r} is no hub id. Write it as org/name.")
    if private and push is None:
        raise InputError("--private is for the repository that --push makes: give --push org/name too.")


def _push(language_model: LanguageModel, out: Path, name: str, private: bool) -> None:
    try:
        pictures = language_model.pictures
        parts = [language_model.model, language_model.tokenizer, *([pictures.processor] if pictures else [])]
        for part in parts:
            part.push_to_hub(name, private=private or None)
    except Exception as error:  # the hub's client raises errors of many libraries
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise HubError(
            f"{out} is written, but {name} was not pushed: {reason} Check the network, and log in with "
            "`hf auth login` or HF_TOKEN; then give the command again."
        ) from error
