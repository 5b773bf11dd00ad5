"""Commands and code of docs/servers.md on judging, run as they stand against servers at its addresses."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from pages import Page, run_line

PAGE = Page.read("judging.md", "Judging")


def answer(body: dict[str, Any]) -> str:
    text = next(message["content"] for message in body["messages"] if message["role"] == "user")
    if "<assigned_category>" in text:
        own = text.partition("<assigned_category>\n")[2].partition("\n")[0]
        return json.dumps({"reasoning": "x", "verdict": "Supported", "correct_category": own})
    names = ("clear", "correct", "derivable", "meaningful", "valid")
    return json.dumps({"reasoning": "x", **dict.fromkeys(names, True)})


def fill_in(sheet: Path) -> None:
    text = (sheet / "labels.csv").read_text(encoding="utf-8-sig")
    (sheet / "anna.csv").write_text(re.sub(r"^(patient-\d+-note),,,", r"\1,,Yes,", text, flags=re.MULTILINE))


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ((yaml,), (python,)) = (PAGE.blocks(language) for language in ("yaml", "python"))
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        for address in re.findall(r"http://[\d.:]+/v1", yaml):
            server = stack.enter_context(FakeServer(answer=answer))
            yaml = yaml.replace(address, server.base_url)
        Path("judges.yaml").write_text(yaml)
        printed = ""
        for line in PAGE.commands:
            if " agree " in line:
                fill_in(Path("sheet"))
            result = run_line(line)
            printed += " ".join(result.output.split())
        exec(python, {})
    assert "Nothing was sent." in printed
    assert "| Supported |" in printed
    assert "| Agreement | anna | panel | 100.0%" in printed
    assert "fleiss_kappa" in capsys.readouterr().out


def test_the_page_names_every_task_and_file() -> None:
    from medunlearn.judging import panel_run as run
    from medunlearn.judging.tasks import TASKS

    files = [value for name, value in vars(run).items() if name.isupper() and isinstance(value, str)]
    assert len(files) > 8
    assert [name for name in (*files, *TASKS) if f"`{name}`" not in PAGE.text] == []
