"""One small world of benchmarks, runs and sheets, in which hostile commands are given."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
from contextlib import suppress
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def arena(tmp_path_factory: pytest.TempPathFactory) -> object:
    from hostile_arena import Arena
    from hostile_inputs import know_world
    from hostile_world import make_world

    import medunlearn
    from medunlearn import template_process

    top = tmp_path_factory.mktemp("hostile")
    world = top / "world"
    world.mkdir()
    here = Path.cwd()
    os.chdir(world)
    try:
        make_world(world)
    finally:
        os.chdir(here)
    know_world(world)
    # What commands load only when they need it; each forked process would load it again.
    ours = [module.name for module in pkgutil.walk_packages(medunlearn.__path__, "medunlearn.")]
    for name in ("lm_eval.evaluator", "lm_eval.models.huggingface", *ours):
        with suppress(ImportError):  # of a package that is not installed
            importlib.import_module(name)
    # A template with loops without end takes all that it may have, in each of its cases.
    template_process.SECONDS = 1.0  # of CPU, of which rendering usually takes a millisecond
    gc.collect()
    gc.freeze()  # or each process copies what it looks through for garbage
    return Arena(world, top / "box")
