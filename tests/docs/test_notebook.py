"""The notebook of the researcher's road: its cells run in their order, without Jupyter."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT, Page

NOTEBOOK = ROOT / "examples" / "researcher.ipynb"
SMALL = {
    "PATIENTS": 20,
    "MODEL": {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "epochs": 1, "train_on": "records"},
    "UNLEARN": {"epochs": 1},
    "EVALUATE": {"limit": 2, "max_new_tokens": 4, "replicates": 50, "allow_broken": True},
}
"""In place of the constants of the first cell."""


def cells(kind: str) -> list[str]:
    return [
        "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == kind
    ]


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Names after the last cell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("notebook"))
        patch.syspath_prepend(".")
        patch.setitem(sys.modules, "mine", None)
        del sys.modules["mine"]  # that of the notebook, and no other test's
        first, *rest = cells("code")
        names: dict[str, Any] = {}
        exec(first, names)
        assert {*SMALL} <= {*names}
        names |= SMALL
        for cell in rest:
            exec(cell, names)
        yield {**names, "OUT": Path.cwd() / names["OUT"]}


def test_the_cells_run_in_their_order(namespace: dict[str, Any]) -> None:
    labels = {run.label for run in namespace["models"]}
    assert len(labels) == len(namespace["models"]) == 4
    assert {*namespace["table"]["model"]} == labels
    assert namespace["scores"]["value"].notna().any()
    report = namespace["OUT"] / "report"
    assert all(
        [*report.glob(pattern)] for pattern in ("report.html", "tables/*.csv", "tables/*.tex", "figures/*.svg")
    )


def test_it_is_stored_without_outputs_and_has_the_method_of_the_road() -> None:
    stored = json.loads(NOTEBOOK.read_text())
    assert stored["nbformat"] == 4
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in stored["cells"])
    (method,) = Page.read("roads/researcher.md").blocks("python")
    assert any(method.strip() in cell for cell in cells("code"))


def test_its_links_lead_to_pages() -> None:
    links = [link.partition(")")[0] for cell in cells("markdown") for link in cell.split("](")[1:]]
    assert links
    assert all((NOTEBOOK.parent / link.partition("#")[0]).exists() for link in links)
