"""Notes from a dataset hub: which file is taken, what is said when it cannot be had. No network is needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medunlearn.errors import HubError, InputError, SourceError, UnknownNameError
from medunlearn.sources.hub import files_of
from medunlearn.sources.patient_notes import read_patient_notes

# As the release has it: a list of objects; age is a list, annotations are dictionaries by patient.
ROW = {
    "patient_id": "0", "patient_uid": "7665777-1", "PMID": "33492400", "file_path": "comm/PMC007xxxxxx/a.xml",
    "title": "A case", "patient": "This 60-year-old male was hospitalized.", "age": [[60.0, "year"]], "gender": "M",
    "relevant_articles": {"32320506": 1, "32293716": 2}, "similar_patients": {"7665777-2": 2},
}  # fmt: skip
Hub = Callable[..., list[tuple[str, str, str | None]]]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """``hub({"org/name": {"file.json": text}})``: a hub with these; gives a list of what is asked of it."""
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError

    def make(content: dict[str, dict[str, str]], error: Exception | None = None) -> list[Any]:
        requests: list[Any] = []

        def files(self: Any, repository: str, *, repo_type: str, revision: str | None) -> list[str]:
            assert repo_type == "dataset"
            requests.append((repository, "*", revision))
            if error:
                raise error
            return list(content[repository])

        def download(repository: str, file: str, *, repo_type: str, revision: str | None) -> str:
            assert repo_type == "dataset"
            requests.append((repository, file, revision))
            if error:
                raise error
            if file not in content[repository]:
                raise EntryNotFoundError(f"404: {file}")
            path = tmp_path / repository / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content[repository][file])
            return str(path)

        monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", files)
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        return requests

    return make


@pytest.mark.parametrize("repository", ["zhengyun21/PMC-Patients", "THUMedInfo/PMC-Patients"])
def test_the_second_release_of_pmc_patients_is_taken(hub: Hub, repository: str) -> None:
    """Without asking what else is there, so that a copy that was fetched before needs no network."""
    second = {**ROW, "patient_id": "1", "patient_uid": "7665777-2", "title": "Another case"}
    requests = hub({repository: {"PMC-Patients.csv": "", "PMC-Patients-V2.json": json.dumps([ROW, second])}})
    read = read_patient_notes(f"hub:{repository}", needs_patient=False)
    assert requests == [(repository, "PMC-Patients-V2.json", None)]
    assert read.is_pmc
    assert [(note.note_id, note.title, note.text) for note in read.notes] == [
        ("7665777-1", "A case", ROW["patient"]),
        ("7665777-2", "Another case", ROW["patient"]),
    ]


def test_a_file_and_a_revision_are_named(hub: Hub) -> None:
    requests = hub({"me/notes": {"data/a.csv": "text\nOne.\n", "b.csv": ""}})
    (path,) = files_of(Path("hub:me/notes/data/a.csv@v1.0"))
    assert path.read_text() == "text\nOne.\n"
    assert requests == [("me/notes", "data/a.csv", "v1.0")]


def test_the_only_table_is_taken_in_one_file_or_in_shards(hub: Hub) -> None:
    shards = {f"data/train-0000{n}-of-00002.csv": f"text\nNote {n}.\n" for n in (0, 1)}
    hub(
        {
            "me/one": {"README.md": "", ".old.csv": "", "notes.csv": "text\nOne.\n"},
            "me/shards": {".gitattributes": "", **shards},
        }
    )
    assert [note.text for note in read_patient_notes("hub:me/one", needs_patient=False).notes] == ["One."]
    assert [note.text for note in read_patient_notes("hub:me/shards", needs_patient=False).notes] == [
        "Note 0.",
        "Note 1.",
    ]


def test_what_cannot_be_chosen_names_the_fix(hub: Hub) -> None:
    hub({"me/two": {"a.csv": "", "b.json": ""}, "me/none": {"model.safetensors": ""}})
    with pytest.raises(InputError, match=r"several tables. Choose one, as hub:me/two/FILE: a.csv, b.json"):
        files_of("hub:me/two")
    with pytest.raises(SourceError, match=r"hub:me/none contains no file of .csv"):
        files_of("hub:me/none")
    with pytest.raises(UnknownNameError, match=r"no file in me/two 'a.cvs'. Did you mean 'a.csv'"):
        files_of("hub:me/two/a.cvs")
    with pytest.raises(InputError, match=r"hub:notes is not understood: .* hub:org/name"):
        files_of("hub:notes")


@pytest.mark.parametrize("address", ["hub:me/notes", "hub:me/notes/a.csv", "hub:zhengyun21/PMC-Patients"])
def test_a_hub_out_of_reach_is_said_with_the_way_around(hub: Hub, address: str) -> None:
    hub({}, OSError("Name or service not known"))
    with pytest.raises(HubError, match=r"could not be fetched: Name or service.*download the file elsewhere"):
        files_of(address)
