"""What docs/llm.md shows runs as it stands, against the server that it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "llm.md").read_text(encoding="utf-8")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (command,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    words = [sys.executable, *shlex.split(command)[1:-1], "0"]  # any free port instead of 8000
    monkeypatch.chdir(tmp_path)
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        exec(code.replace("http://127.0.0.1:8000/v1", address), {})
    finally:
        server.terminate()
        server.communicate()
    said = capsys.readouterr().out
    assert "2 requests to send" in said
    assert said.count("answered {'label':") == 2
