"""Optimizer steps a second: the engine against the plain way, for each method, in one process.

The plain way is written here as peers do it: a deep-copied reference, separate padded sequences, logits of every
position, all layers. Both train one layer of the same Llama with random weights on the same sequences, and both
are checked to give the same loss terms before anything is timed.

    python benchmarks_perf/steps.py                     500-token notes, 6 questions of 20 + 45 tokens
    python benchmarks_perf/steps.py --note 0            plain questions with no shared text
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from medunlearn.methods import make_method
from medunlearn.models.feeding import make_batch
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import generator
from medunlearn.training.trainable import choose_trainable, trained
from medunlearn.training.views import ModelView, Totals

METHODS = ("graddiff", "simnpo", "kl_min", "npo", "rmu")
Sides = Mapping[str, Sequence[TokenSequence]]
CPU = torch.device("cpu")


def sequences(
    side: str, note: int, questions: int, prompt: int, answer: int, vocabulary: int
) -> list[TokenSequence]:
    draw = generator("steps", side, note, questions)
    text = draw.integers(3, vocabulary, note).tolist()
    made = []
    for number in range(questions):
        own = draw.integers(3, vocabulary, prompt + answer - 1).tolist()
        made.append(TokenSequence(f"{side}{number}", (*text, *own, 1), note, note + prompt))
    return made


class PlainView:
    """What a method asks for, computed the plain way: whole sequences, whole logits, all layers, a second model."""

    def __init__(self, model: Any, before: Any, chosen: Sequence[TokenSequence], frozen: bool = False) -> None:
        longest = max(len(sequence.ids) for sequence in chosen)
        self.ids = torch.zeros(len(chosen), longest, dtype=torch.long)
        self.attention = torch.zeros_like(self.ids)
        self.labels = torch.full_like(self.ids, -100)
        for row, sequence in enumerate(chosen):
            count = len(sequence.ids)
            self.ids[row, :count] = torch.tensor(sequence.ids)
            self.attention[row, :count] = 1
            self.labels[row, sequence.scored_from : count] = self.ids[row, sequence.scored_from : count]
        self.model, self.before, self.chosen, self.frozen = model, before, chosen, frozen
        self._said: Any = None

    @property
    def reference(self) -> PlainView:
        return PlainView(self.before, None, self.chosen, frozen=True)

    def _output(self) -> Any:
        if self._said is None:
            with torch.set_grad_enabled(not self.frozen):
                self._said = self.model(
                    input_ids=self.ids, attention_mask=self.attention, use_cache=False, output_hidden_states=True
                )
        return self._said

    @property
    def _scored(self) -> Tensor:
        return self.labels[:, 1:] != -100

    def log_distribution(self) -> Tensor:
        distribution: Tensor = self._output().logits[:, :-1].float().log_softmax(-1)
        return distribution[self._scored]

    def token_log_probs(self) -> Tensor:
        return self.log_distribution().gather(1, self.labels[:, 1:][self._scored][:, None]).squeeze(1)

    def divergence_from_reference(self) -> Tensor:
        before, now = self.reference.log_distribution(), self.log_distribution()
        return (before.exp() * (before - now)).sum(-1)

    def hidden(self, layer: int) -> Tensor:
        states: Tensor = self._output().hidden_states[layer + 1][:, :-1].float()
        return states[self._scored]

    def sequence_tokens(self) -> Tensor:
        return self._scored.sum(1)

    def sequence_nll(self) -> Tensor:
        rows = torch.arange(len(self.chosen)).repeat_interleave(self.sequence_tokens())
        return torch.zeros(len(self.chosen)).index_add(0, rows, -self.token_log_probs())

    def mean_over_tokens(self, values: Tensor) -> Tensor:
        return values.mean()

    def mean_over_sequences(self, values: Tensor) -> Tensor:
        return values.mean()

    def nll(self) -> Tensor:
        return -self.token_log_probs().mean()


def plain_step(model: Any, before: Any, method: Any, sides: Sides) -> dict[str, Tensor]:
    views = {side: PlainView(model, before, chosen) for side, chosen in sides.items()}
    terms: dict[str, Tensor] = method.loss(views["forget"], views["retain"])
    return terms


def engine_step(model: Any, reference: Reference, method: Any, sides: Sides) -> dict[str, Tensor]:
    views = {
        side: ModelView(model, make_batch(model, chosen, 0, CPU), Totals.of(chosen), reference)
        for side, chosen in sides.items()
    }
    terms: dict[str, Tensor] = method.loss(views["forget"], views["retain"])
    return terms


def timed(model: Any, terms: Callable[[], dict[str, Tensor]], seconds: float) -> float:
    """Median seconds of a step with its optimizer."""
    optimizer = torch.optim.AdamW(trained(model).values(), lr=1e-6)
    spent: list[float] = []
    while sum(spent) < seconds or len(spent) < 3:
        started = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(terms().values())).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def compare(name: str, chosen: argparse.Namespace) -> None:
    config = LlamaConfig(
        vocab_size=chosen.vocabulary,
        hidden_size=chosen.width,
        intermediate_size=chosen.width * 8 // 3,
        num_hidden_layers=chosen.layers,
        num_attention_heads=4,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = choose_trainable(LlamaForCausalLM(config).eval(), f"layers:{chosen.layer}")
    before, reference = copy.deepcopy(model).requires_grad_(False), Reference(model)
    method = make_method(name, {"layer": chosen.layer} if name == "rmu" else {})
    shape = (chosen.note, chosen.questions, chosen.prompt, chosen.answer, chosen.vocabulary)
    sides = {side: sequences(side, *shape) for side in ("forget", "retain")}
    plain = lambda: plain_step(model, before, method, sides)  # noqa: E731
    engine = lambda: engine_step(model, reference, method, sides)  # noqa: E731
    for (key, ours), theirs in zip(engine().items(), plain().values(), strict=True):
        if not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5):
            raise SystemExit(f"{name}: the term {key} differs: {float(ours)} and {float(theirs)}")
    slow, fast = timed(model, plain, chosen.seconds), timed(model, engine, chosen.seconds)
    held, whole = reference.held_bytes(), sum(t.numel() * t.element_size() for t in model.parameters())
    print(
        f"{name:9} plain {slow:7.3f} s  engine {fast:7.3f} s  {slow / fast:5.1f}x   "
        f"the reference holds {held / whole:.1%} of the model",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shape = {"note": 500, "questions": 6, "prompt": 20, "answer": 45, "vocabulary": 8192, "width": 256, "layers": 8}
    for key, value in {**shape, "layer": 3}.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seconds", type=float, default=6.0, help="time each side of each method for so long")
    chosen = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, fp32, {vars(chosen)}")
    for name in chosen.methods:
        compare(name, chosen)


if __name__ == "__main__":
    main()
