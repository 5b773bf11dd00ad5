"""Notes from a dataset hub: ``hub:org/name``, optionally with a file and a revision.

PMC-Patients is on the hub in its authors' format: the first release as ``PMC-Patients.csv``, the second
(250,294 patients, the same columns, in JSON) as ``PMC-Patients-V2.json``. Its dictionary columns have no common
type over all rows, so the file is downloaded and read directly, not through `datasets`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from medunlearn.errors import HubError, InputError, SourceError, UnknownNameError, first_few, first_line
from medunlearn.hub_offline import go_offline_if_unreachable
from medunlearn.sources.table_files import READERS, files_in
from medunlearn.sources.text_encodings import ending_of

PREFIX = "hub:"
PMC_V2 = "PMC-Patients-V2.json"
PMC_REPOSITORIES = ("zhengyun21/PMC-Patients", "THUMedInfo/PMC-Patients")
_FORM = re.compile(r"hub:([\w.-]+/[\w.-]+)(?:/([^@]+))?(?:@([\w./-]+))?")
T = TypeVar("T")
_SHARD = re.compile(r"(.*)-\d{5}-of-\d{5}(\.\w+)")


def files_of(where: Path | str) -> tuple[Path, ...]:
    """Local files with the notes: the named file, a folder's files, or files downloaded from a hub.

    Args:
        where: a file; a folder of files of one kind; or ``hub:org/name[/FILE][@REVISION]``.

    Raises:
        InputError: another notation, or several files to choose from.
        HubError: the hub cannot be reached, or refuses; a cached file needs no network.
    """
    text = where if isinstance(where, str) else where.as_posix()
    if not text.startswith(PREFIX):
        return files_in(Path(where))
    match = _FORM.fullmatch(text)
    if match is None:
        raise InputError(
            f"{text} is not understood: a dataset on a hub is hub:org/name, hub:org/name/FILE or ...@REVISION."
        )
    repository, file, revision = match.groups()
    if file is None:
        names = (
            (PMC_V2,)
            if repository in PMC_REPOSITORIES
            else _notes_files(repository, _list_files(repository, revision))
        )
    else:
        names = (file,)
    return tuple(_fetch(repository, name, revision) for name in names)


def _notes_files(repository: str, files: Sequence[str]) -> tuple[str, ...]:
    """The only table of a repository, in one file or in shards."""
    tables = sorted(name for name in files if ending_of(name) in READERS and not name.startswith("."))
    datasets = {shard[1] + shard[2] if (shard := _SHARD.fullmatch(name)) else name for name in tables}
    if len(datasets) == 1:
        return tuple(tables)
    if not tables:
        raise SourceError(f"{PREFIX}{repository} contains no file of {', '.join(READERS)}.")
    names = first_few(tables, 8) + (f" ({len(tables)} in all)" if len(tables) > 8 else "")
    raise InputError(f"{PREFIX}{repository} has several tables. Choose one, as {PREFIX}{repository}/FILE: {names}.")


def _list_files(repository: str, revision: str | None) -> list[str]:
    from huggingface_hub import HfApi

    return _request(repository, lambda: HfApi().list_repo_files(repository, repo_type="dataset", revision=revision))


def _fetch(repository: str, file: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    def download() -> str:
        try:
            return hf_hub_download(repository, file, repo_type="dataset", revision=revision)
        except LocalEntryNotFoundError:
            raise
        except EntryNotFoundError:
            raise UnknownNameError(f"file in {repository}", file, _list_files(repository, revision)) from None

    return Path(_request(repository, download))


def _request(repository: str, ask: Callable[[], T]) -> T:
    go_offline_if_unreachable()
    try:
        return ask()
    except InputError:
        raise
    except Exception as error:  # the hub's client raises errors of many libraries
        raise HubError(
            f"{PREFIX}{repository} could not be fetched: {first_line(error)} Check network and name (a closed one "
            "needs `hf auth login` or HF_TOKEN), or download the file elsewhere and give its path."
        ) from error
