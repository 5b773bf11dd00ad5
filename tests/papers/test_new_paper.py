"""papers/README.md's example: a paper from outside the tree gets its benchmark, its runs and its section."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import medunlearn
from medunlearn import registry

PAGE = (Path(medunlearn.__file__).parent / "papers" / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def haiku(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of the page, installed as pip would leave it."""
    site = tmp_path / "site"
    for name, code in zip(("build", "report"), re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), strict=True):
        (site / "haiku").mkdir(parents=True, exist_ok=True)
        (site / "haiku" / f"{name}.py").write_text(code)
    info = site / "haiku-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: haiku\nVersion: 1.0\n")
    groups = re.findall(r'entry-points\."([\w.]+)"\]\n(\w+) = "([\w.:]+)"', PAGE)
    assert len(groups) == 2
    (info / "entry_points.txt").write_text("".join(f"[{g}]\n{n} = {t}\n" for g, n, t in groups))
    monkeypatch.syspath_prepend(site)
    registry._installed.cache_clear()
    yield site
    registry._installed.cache_clear()


@pytest.mark.usefixtures("haiku")
def test_a_new_paper_is_a_folder(tmp_path: Path) -> None:
    import medunlearn as mu
    from medunlearn.pipeline.benchmark_builds import build

    bench = build("haiku", {"poets": 20})
    assert len(bench.splits["random_10"].forget) == 2
    bench.save(tmp_path / "bench")
    target = mu.train(
        tmp_path / "bench", model="tiny", out=tmp_path / "target", epochs=1, pretrain_epochs=0, tiny_width=16,
        tiny_layers=1, device="cpu", quiet=True,
    )  # fmt: skip
    mu.evaluate(
        target,
        tmp_path / "bench",
        split="random_10",
        metrics=["rouge_l"],
        max_new_tokens=4,
        device="cpu",
        quiet=True,
    )
    page = mu.report([target.folder], benchmark=tmp_path / "bench", out=tmp_path / "report")
    assert 'id="haiku"' in Path(page).read_text()
    assert json.loads((tmp_path / "report" / "report.json").read_text())["haiku"] == 1
