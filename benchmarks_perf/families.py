"""Every family of models on every road, against plain transformers one sequence at a time; the table of docs.

A family's tiny random model is made from its configuration, saved by transformers, and taken down a road
(`adopt`, `train`, `unlearn` by NPO, RMU, counterfactual, and GradDiff with LoRA), then exported. The run's model in
batches is compared with the exported folder in plain transformers: log-probabilities of answers with the note and
without, in passes of one and of many sequences; greedy answers that end at different times, from shared prompts and
whole ones.

    python benchmarks_perf/families.py                            all, about five CPU minutes
    python benchmarks_perf/families.py --families Llama --roads adopt lora
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from family_roads import ROADS, agreement, travel
from model_families import FAMILIES
from transformers.utils import logging

from medunlearn.errors import MedunlearnError, first_line
from medunlearn.generation.sharing import decoding_of, way_of
from medunlearn.models.layouts import decoder_of
from medunlearn.models.load import load_model

BOUND = 1e-4


def cell(name: str, road: str) -> tuple[str, tuple[str, str, str] | None]:
    """Largest difference of a log-probability with the share of equal answers, or the error; and the layouts."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            model, exported = travel(name, road, Path(folder))
            result = agreement(model, exported)
            live = load_model(exported, device="cpu").model
            layouts = decoder_of(live).support.attention, way_of(live), decoding_of(live)
        except MedunlearnError as error:
            return f"refused: {first_line(error)}", None
        except Exception as error:  # a crash is a result here
            return f"**{type(error).__name__}**", None
    is_same = result.difference < BOUND and result.answers == result.prompts
    text = f"{result.difference:.0e}, {result.answers}/{result.prompts}"
    return text if is_same else f"**{text}**", layouts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--roads", nargs="+", default=list(ROADS), choices=list(ROADS))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    heads = ["family", *chosen.roads, "batches", "shared prompts", "decoding", "CPU s"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for name in chosen.families:
        start, cells = time.process_time(), [cell(name, road) for road in chosen.roads]
        layouts = next((layout for _, layout in cells if layout), ("", "", ""))
        seconds = f"{time.process_time() - start:.1f}"
        print(f"| {' | '.join([name, *(text for text, _ in cells), *layouts, seconds])} |", flush=True)


if __name__ == "__main__":
    main()
