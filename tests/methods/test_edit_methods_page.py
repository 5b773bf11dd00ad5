"""The commands of docs/unlearn.md on edits run, but for the size of the training; so does its method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pages import Page, run_line

from medunlearn.methods import make_method
from medunlearn.methods.editing import EditedModel, EditMethod
from medunlearn.models.activations import SequenceReader, Side

PAGE = Page.read("unlearn.md", "Methods that edit weights")
SMALL = {
    "train": ["--epochs=1", "--tiny-width=32", "--tiny-layers=2"],
    "attack": ["--allow-broken", "--cumulative.max-new-tokens=2", "--replicates=20"],
}


def test_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.commands
    assert len(lines) == 6
    for line in lines:
        run_line(line, SMALL)
    for name, changed in (("manu", "zeroed"), ("chip", "removed_directions")):
        info = json.loads((tmp_path / "runs" / name / "run.json").read_text())
        assert info["results"]["edit"][changed] > 0
    names = {path.name for path in (tmp_path / "runs" / "chip" / "attacks").glob("*/*.parquet")}
    assert "reconstruction_summary.parquet" in names


def test_the_pages_method_runs(tiny: Any, make_sequences: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    module = ModuleType("own_edit")
    monkeypatch.setitem(sys.modules, "own_edit", module)
    exec(PAGE.blocks("python")[0], vars(module))
    method = make_method("own_edit:Mine", {"layers": "1"})
    assert isinstance(method, EditMethod)
    language_model = tiny()
    forget, retain = (
        Side(SequenceReader(language_model, make_sequences(3, name), 1), ({},) * 3, 2) for name in ("f", "r")
    )
    assert method.edit(EditedModel(language_model.model), forget, retain) == {"zeroed": 1}
    assert (language_model.model.model.layers[1].mlp.down_proj.weight == 0).all(dim=0).sum() == 1
