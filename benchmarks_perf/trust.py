"""Which measure of forgetting can be trusted: tiny models that know some patients and tiny models that do not.

    python benchmarks_perf/trust.py OUT              # resumes; about 20 minutes on one core
    python benchmarks_perf/trust.py OUT --seeds 1    # a quick look

For each size a base model learns the form of the texts from patients of its own. From it are trained, once, a
target (with the patients to forget) and a retrained model (without them): the references. Then, for each seed, one
model with them and one without; and each of these three times more with its last layer trained to hide them
(GradDiff, NPO, a refusal). What the layers below hold is untouched, so that the models with the patients know them,
and those without cannot, whatever they say. Each measure is a number of a model, higher = knows more. The table
has, for each measure, how often a model that knows scores above one that does not (AUC, its interval over
trainings), the same with weights rounded to int4 and after one epoch of relearning the patients, its stability
under both, and its CPU seconds a model.

Source of the design: Maini et al. 2025 (OpenUnlearning) and Lee et al. 2026 (arXiv 2605.24614), Section 4.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medunlearn.attacks import make_attack
from medunlearn.attacks.measure_trust import TABLE
from medunlearn.attacks.membership.passage import Passage
from medunlearn.attacks.membership.passes import conditional_means, document_moments, documents_in_front
from medunlearn.attacks.whitebox.depth import erased_share, patch_scores
from medunlearn.attacks.whitebox.distances import linear_cka, relative_distance
from medunlearn.attacks.whitebox.guided import guided_log_probs
from medunlearn.attacks.whitebox.layer_pass import LayerPass, value_places
from medunlearn.attacks.whitebox.patient_features import loss_features, mean_states
from medunlearn.attacks.whitebox.truth_probe import last_states, probe_pairs
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.storage import write_text
from medunlearn.generation.decode import decode
from medunlearn.metrics.likelihood import answer_probability, exact_memorization, truth_ratio
from medunlearn.metrics.overlap import extraction_strength
from medunlearn.metrics.text import rouge_l_recalls
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.quantization import round_weights
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, TokenSequence, question_sequence, record_sequences
from medunlearn.models.tiny import build_tiny
from medunlearn.seeds import generator
from medunlearn.statistics.linear_classifier import cross_fitted_scores
from medunlearn.statistics.roc import RocSample

RESULTS = Path(__file__).parents[1] / "src" / "medunlearn" / "attacks" / TABLE
NAMES = {
    "logit_lens": "lens_probability",
    "depth": "knowledge_kept",
    "lens_depth": "lens_kept",
    "probe": "probe_accuracy",
    "distance": "nearness_to_target",
    "forgotten_or_unseen": "told_apart",
    "guided": "checkpoint_difference.em",
    **{f"membership_{name}": f"{name}.auc" for name in ("loss", "zlib", "min_k", "min_k_pp", "conditional_ratio")},
}
"""Measures here -> measures of the attacks; the others have one name."""
SIZES = ((40, 3), (56, 4))
SEEDS = 4
HIDING = ("none", "graddiff", "npo", "refusal")
FORGET, RETAIN, UNSEEN, OWN = 12, 24, 12, 24
SPLIT = {"forget": FORGET, "retain": RETAIN, "unseen": UNSEEN, "base": OWN}
FIRST = ("Abel", "Berit", "Carla", "Doran", "Edith", "Falk", "Greta", "Henrik", "Ilse", "Jonas", "Katja", "Lorenz")
LAST = ("Asmus", "Brandis", "Corvin", "Dresche", "Elmond", "Fennik", "Garrold", "Hasper", "Immen", "Jasper")
DRUGS = ("aspirin", "heparin", "insulin", "digoxin", "warfarin", "morphine", "codeine", "quinine", "atropine")
WRONG = 4
"""False answers of a question."""
REFUSAL = "I do not know."
Floats = Any


@dataclass(frozen=True)
class Patient:
    side: str
    number: int

    @property
    def name(self) -> str:
        order = generator("trust names").permutation(len(FIRST) * len(LAST))
        place = int(order[[*SPLIT].index(self.side) * 24 + self.number])
        return f"{FIRST[place % len(FIRST)]} {LAST[place // len(FIRST)]}"

    def facts(self, version: int = 0) -> tuple[str, str, str]:
        """Pulse, room and drug; other versions are false."""
        draw = generator("trust facts", self.side, self.number, version)
        room = f"{'ABCDEFGH'[int(draw.integers(8))]}{int(draw.integers(100, 1000))}"
        return str(int(draw.integers(100, 200))), room, DRUGS[int(draw.integers(len(DRUGS)))]

    @property
    def record(self) -> Record:
        pulse, room, drug = self.facts()
        text = f"{self.name} lies in room {room} with a pulse of {pulse} and takes {drug} every day."
        values = (Identifier("room", room), Identifier("drug", drug))
        return Record(f"{self.side}-{self.number}", text, {"patient": f"{self.side}-{self.number}"}, values)

    def questions(self, version: int = 0) -> list[Question]:
        texts = (
            (f"What is the pulse of {self.name}?", "It is {}."),
            (f"In which room is {self.name}?", "In room {}."),
            (f"Which drug does {self.name} take?", "The drug is {}."),
        )
        record = self.record.record_id
        return [
            Question(f"{record}-{place}-{version}", record, "train", "factual", "patient", text, form.format(value))
            for place, ((text, form), value) in enumerate(zip(texts, self.facts(version), strict=True))
        ]


PATIENTS = {side: [Patient(side, number) for number in range(count)] for side, count in SPLIT.items()}
RENDERING = Rendering("plain", "closed_book")


@dataclass(frozen=True)
class Material:
    """Token sequences of all patients for one tokenizer."""

    tokenizer: Any

    def question(self, question: Question, record: Record) -> TokenSequence:
        return question_sequence(question, record, self.tokenizer, RENDERING)

    def answers(self, side: str, version: int = 0) -> list[TokenSequence]:
        return [self.question(q, p.record) for p in PATIENTS[side] for q in p.questions(version)]

    def refusals(self, side: str) -> list[TokenSequence]:
        pairs = [(replace(q, answer=REFUSAL), p.record) for p in PATIENTS[side] for q in p.questions()]
        return [self.question(*pair) for pair in pairs]

    def documents(self, side: str) -> list[TokenSequence]:
        return [record_sequences(p.record, self.tokenizer, None)[0] for p in PATIENTS[side]]

    def training(self, *sides: str) -> list[TokenSequence]:
        return [sequence for side in sides for sequence in (*self.answers(side), *self.documents(side))]

    @cached_property
    def places(self) -> list[list[int]]:
        """Value tokens of each forgotten answer."""
        return [
            value_places(q, p.record.identifiers, self.question(q, p.record), self.tokenizer)
            for p in PATIENTS["forget"]
            for q in p.questions()
        ]


# Training


def padded(sequences: Sequence[TokenSequence]) -> torch.Tensor:
    longest = max(len(sequence.ids) for sequence in sequences)
    rows = [
        [-100 if place < s.scored_from else token for place, token in enumerate(s.ids)]
        + [-100] * (longest - len(s.ids))
        for s in sequences
    ]
    return torch.tensor(rows)


def inputs(sequences: Sequence[TokenSequence], pad: int) -> torch.Tensor:
    longest = max(len(sequence.ids) for sequence in sequences)
    return torch.tensor([[*s.ids, *[pad] * (longest - len(s.ids))] for s in sequences])


def log_likelihoods(model: Any, sequences: Sequence[TokenSequence], pad: int) -> torch.Tensor:
    """Mean log-probability of each sequence's scored tokens, [S], with gradient."""
    labels = padded(sequences)[:, 1:]
    logs = model(input_ids=inputs(sequences, pad), use_cache=False).logits[:, :-1].log_softmax(2)
    scored = labels >= 0
    picked = logs.gather(2, labels.clamp(min=0)[:, :, None])[:, :, 0] * scored
    return picked.sum(1) / scored.sum(1)


def fit(
    model: Any,
    loss: Callable[[list[int]], torch.Tensor],
    count: int,
    *,
    steps: int,
    lr: float,
    seed: Sequence[object],
    batch: int = 24,
    parameters: Sequence[torch.nn.Parameter] = (),
) -> None:
    """Steps of AdamW on batches of places below ``count``."""
    trained = list(parameters) or list(model.parameters())
    optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 2 * (1 - step / steps)))
    draw, order = generator("trust order", *seed), list[int]()
    model.train()
    for _ in range(steps):
        if len(order) < batch:
            order += draw.permutation(count).tolist()
        places, order = order[:batch], order[batch:]
        optimizer.zero_grad()
        loss(places).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def trained(language_model: LanguageModel, items: Sequence[TokenSequence], **how: Any) -> LanguageModel:
    """A copy of a model, trained on sequences."""
    own = replace(language_model, model=copy.deepcopy(language_model.model))
    pad = own.tokenizer.pad_token_id
    fit(own.model, lambda at: -log_likelihoods(own.model, [items[n] for n in at], pad).mean(), len(items), **how)
    return own


def hidden(language_model: LanguageModel, material: Material, method: str, seed: Sequence[object]) -> LanguageModel:
    """A copy whose last layer was trained to hide the patients to forget; layers below are the same bits."""
    if method == "none":
        return language_model
    own = replace(language_model, model=copy.deepcopy(language_model.model))
    pad, forget, retain = own.tokenizer.pad_token_id, material.answers("forget"), material.answers("retain")
    forget, retain = forget + material.documents("forget"), retain + material.documents("retain")
    refusals = material.refusals("forget") + forget[FORGET * 3 :]
    with torch.no_grad():
        before = log_likelihoods(own.model, forget, pad)
    draw = generator("trust partners", *seed)

    def loss(at: list[int]) -> torch.Tensor:
        partners = [retain[int(n)] for n in draw.integers(len(retain), size=len(at))]
        kept = -log_likelihoods(own.model, partners, pad).mean()
        if method == "refusal":
            answers = [refusals[n] for n in at if n < FORGET * 3]
            return kept - (log_likelihoods(own.model, answers, pad).mean() if answers else 0.0)
        ours = log_likelihoods(own.model, [forget[n] for n in at], pad)
        if method == "graddiff":
            return kept + ours.clamp(min=-6.0).mean()
        return kept - 2 / 0.5 * torch.nn.functional.logsigmoid(-0.5 * (ours - before[at])).mean()

    parameters = list(own.model.model.layers[-1].parameters())
    fit(own.model, loss, len(forget), steps=40, lr=3e-3, seed=seed, parameters=parameters)
    return own


# Measures


@dataclass(frozen=True)
class References:
    """The target and the retrained model of one size."""

    material: Material
    target: LanguageModel
    retrained: LanguageModel

    @cached_property
    def base_gaps(self) -> tuple[Floats, Floats]:
        """Gaps of the retrained model by patching and by the logit lens."""
        return self.gaps(self.retrained)

    def gaps(self, source: LanguageModel) -> tuple[Floats, Floats]:
        scores = patch_scores(self.material.answers("forget"), self.target, source)
        pairs = list(zip(scores, self.material.places, strict=True))
        return np.array([s.gaps(at) for s, at in pairs]), np.array([s.lens_gaps(at) for s, at in pairs])


def texts(model: LanguageModel, material: Material) -> float:
    sequences = material.answers("forget")
    words = [q.answer for p in PATIENTS["forget"] for q in p.questions()]
    said: dict[int, str] = {}
    for batch in decode(model, [s.prompt for s in sequences], shared=[0] * len(sequences), max_new_tokens=16):
        said |= {place: model.tokenizer.decode(answer.tokens) for place, answer in batch}
    recalls = rouge_l_recalls([said[place] for place in range(len(words))], words)
    return float(np.mean([value for value in recalls if value is not None]))


def answers(model: LanguageModel, material: Material) -> dict[str, float]:
    scores = score_answers(model, material.answers("forget"), batch_size=64)
    return {
        "answer_probability": float(np.mean([answer_probability(s.log_probs) for s in scores])),
        "em": float(np.mean([exact_memorization(s.hits) or 0.0 for s in scores])),
        "extraction_strength": float(np.mean([extraction_strength(s.hits[:-1]) or 0.0 for s in scores])),
    }


def choices(model: LanguageModel, material: Material) -> dict[str, float]:
    versions = [
        [score.log_probs for score in score_answers(model, material.answers("forget", version), batch_size=64)]
        for version in range(1 + WRONG)
    ]
    ratios, firsts, options = [], [], []
    for right, *wrong in zip(*versions, strict=True):
        ratios.append(-np.log(truth_ratio(right, wrong, geometric=True)))
        firsts.append(all(sum(right) > sum(other) for other in wrong))
        options.append(all(sum(right) > sum(other) for other in wrong[:3]))
    return {
        "truth_ratio": float(np.mean(ratios)),
        "ranked_first": float(np.mean(firsts)),
        "option_accuracy": float(np.mean(options)),
    }


def lens(model: LanguageModel, material: Material) -> dict[str, float]:
    layers = LayerPass.of(model, material.answers("forget"))
    by_layer = []
    for layer in range(len(layers.states)):
        logs = layers.split(layers.lens(layer)[0])
        values = [own[at].mean().item() for own, at in zip(logs, material.places, strict=True)]
        by_layer.append(float(np.exp(values).mean()))
    return {"logit_lens": max(by_layer)}


def depths(model: LanguageModel, references: References) -> dict[str, float]:
    found = {}
    for name, base, own in zip(("depth", "lens_depth"), references.base_gaps, references.gaps(model), strict=True):
        shares = [erased_share(*pair) for pair in zip(base, own, strict=True)]
        found[name] = 1 - float(np.mean([share for share in shares if share is not None]))
    return found


def probes(model: LanguageModel, material: Material) -> dict[str, float]:
    states = {
        (side, version): np.array(last_states(material.answers(side, version), model))
        for side in ("retain", "forget")
        for version in (0, 1)
    }
    best, selective = 0.0, 0.0
    for layer in range(states["retain", 0].shape[1]):
        known, tried = ((states[side, 0][:, layer], states[side, 1][:, layer]) for side in ("retain", "forget"))
        own, control = probe_pairs(known, tried)
        best = max(best, float(own.mean()))
        selective = max(selective, float((own - control).mean()))
    return {"probe": best, "probe_selectivity": selective}


def distances(model: LanguageModel, references: References) -> dict[str, float]:
    sequences = references.material.answers("forget")
    ours, retrained, target = (LayerPass.of(m, sequences) for m in (model, references.retrained, references.target))
    relative, geometry = [], []
    for layer in range(len(ours.states)):
        own, never, before = (p.read(layer).double().numpy() for p in (ours, retrained, target))
        relative.append(relative_distance(own, never) - relative_distance(own, before))
        geometry.append((linear_cka(own, before) or 0.0) - (linear_cka(own, never) or 0.0))
    return {"distance": float(np.mean(relative)), "cka": float(np.mean(geometry))}


def membership(model: LanguageModel, material: Material) -> dict[str, float]:
    records = [p.record for side in ("forget", "unseen") for p in PATIENTS[side]]
    documents = [[s] for side in ("forget", "unseen") for s in material.documents(side)]
    members = [place < FORGET for place in range(len(records))]
    in_front = [[documents[n][0] for n in own] for own in documents_in_front(members, 0)]
    moments, behind = document_moments(model, documents), conditional_means(model, documents, in_front)
    sample = RocSample(members, [record.record_id for record in records], 2)
    found = {}
    for name in ("loss", "zlib", "min_k", "min_k_pp", "conditional_ratio"):
        attack = make_attack(name, {})
        values = [
            attack.score(
                Passage(record.text, *(np.float64(c) for c in (m.log_probs, m.means, m.variances)), conditional=b)
            ).value
            for record, m, b in zip(records, moments, behind, strict=True)
        ]
        found[f"membership_{name}"] = float(sample.auc(np.array(values, dtype=np.float64)).value or 0.0)
    return found | {"membership_two_sided": abs(found["membership_loss"] - 0.5)}


def unlearned(model: LanguageModel, material: Material) -> dict[str, float]:
    """Forgotten against unseen patients; the farther from chance on either side, the more it tells."""
    sequences = [s for side in ("forget", "unseen") for s in material.documents(side)]
    losses = np.array([loss_features(m) for m in document_moments(model, [[s] for s in sequences])])
    features = np.hstack([losses, np.array(mean_states(sequences, model))])
    members = [place < FORGET for place in range(len(sequences))]
    names = [sequence.key for sequence in sequences]
    scores = cross_fitted_scores(features, members, names)
    return {"forgotten_or_unseen": abs(float(RocSample(members, names, 2).auc(scores).value or 0.0) - 0.5)}


@torch.no_grad()
def guided(model: LanguageModel, references: References) -> dict[str, float]:
    """Probability of the answers if the older model guides this one, beyond the older one alone."""
    sequences, logits = references.material.answers("forget"), []
    for own in (model, references.target):
        batch = make_batch(own.model, sequences, own.tokenizer.pad_token_id, own.device)
        logits.append(ForwardOutputs(decoder_of(own.model), batch).logits)
    targets = batch.targets[:, None]
    both, alone = (guided_log_probs(*logits, weight).gather(1, targets) for weight in (2.0, 1.0))
    return {"guided": float((both.exp() - alone.exp()).mean())}


def measured(model: LanguageModel, references: References) -> tuple[dict[str, float], dict[str, float]]:
    """Every measure of a model, and CPU seconds of each."""
    material = references.material
    parts: Sequence[Callable[[], dict[str, float]]] = (
        lambda: {"rouge_l": texts(model, material)},
        partial(answers, model, material),
        partial(choices, model, material),
        partial(lens, model, material),
        partial(depths, model, references),
        partial(probes, model, material),
        partial(distances, model, references),
        partial(membership, model, material),
        partial(unlearned, model, material),
        partial(guided, model, references),
    )
    values, seconds = dict[str, float](), dict[str, float]()
    for part in parts:
        start = time.process_time()
        own = part()
        values |= own
        seconds |= dict.fromkeys(own, time.process_time() - start)
    return values, seconds


# Models


def base(width: int, layers: int) -> LanguageModel:
    """A model that knows the form of the texts, and patients of its own."""
    words = [text for people in PATIENTS.values() for p in people for text in (p.record.text, REFUSAL)]
    language_model = build_tiny(words, vocabulary=400, width=width, layers=layers, heads=4)
    items = Material(language_model.tokenizer).training("base")
    return trained(language_model, items, steps=260, lr=5e-3, seed=("base", width, layers))


def tuned(language_model: LanguageModel, knows: bool, seed: Sequence[object]) -> LanguageModel:
    material = Material(language_model.tokenizer)
    items = material.training("base", "retain", *(["forget"] if knows else []))
    return trained(language_model, items, steps=280, lr=4e-3, seed=("tuned", *seed))


def relearned(language_model: LanguageModel, seed: Sequence[object]) -> LanguageModel:
    """One epoch on the patients' texts."""
    items = Material(language_model.tokenizer).training("forget")
    steps = -(-len(items) // 24)
    return trained(language_model, items, steps=steps, lr=5e-4, seed=("relearned", *seed))


def rounded(language_model: LanguageModel) -> LanguageModel:
    own = replace(language_model, model=copy.deepcopy(language_model.model))
    with torch.no_grad():
        round_weights(own.model, "int4")
    return own


def states(language_model: LanguageModel, seed: Sequence[object]) -> Iterator[tuple[str, LanguageModel]]:
    yield "plain", language_model
    yield "int4", rounded(language_model)
    yield "relearned", relearned(language_model, seed)


def stored(path: Path, make: Callable[[], LanguageModel], like: Callable[[], LanguageModel]) -> LanguageModel:
    """A model whose weights are kept in a file."""
    if path.exists():
        language_model = like()
        language_model.model.load_state_dict(torch.load(path, weights_only=True))
        language_model.model.eval()
        return language_model
    language_model = make()
    torch.save(language_model.model.state_dict(), path)
    return language_model


def rows(out: Path, seeds: int) -> list[dict[str, Any]]:
    """A row a model and state: measured now, or read."""
    path = out / "rows.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    keys = {(r["width"], r["seed"], r["knows"], r["hiding"], r["state"]) for r in done}
    for width, layers in SIZES:
        size = f"{width}-{layers}"

        def fresh(width: int = width, layers: int = layers) -> LanguageModel:
            words = [text for people in PATIENTS.values() for p in people for text in (p.record.text, REFUSAL)]
            return build_tiny(words, vocabulary=400, width=width, layers=layers, heads=4)

        start = stored(out / f"base-{size}.pt", partial(base, width, layers), fresh)
        pair = [
            stored(out / f"reference-{size}-{knows}.pt", partial(tuned, start, knows, (size, "reference")), fresh)
            for knows in (True, False)
        ]
        references = References(Material(start.tokenizer), *pair)
        for own in (("retrained", pair[1]), ("target", pair[0])):
            for state, changed in states(own[1], (size, "reference")):
                key = (width, -1, own[0] == "target", "none", state)
                if key not in keys:
                    done.append(_write(path, key, changed, references))
        for seed in range(seeds):
            for knows in (True, False):
                wanted = [(width, seed, knows, h, s) for h in HIDING for s in ("plain", "int4", "relearned")]
                if keys >= {*wanted}:
                    continue
                model = tuned(start, knows, (size, seed, knows))
                for hiding in HIDING:
                    hider = hidden(model, references.material, hiding, (size, seed, knows, hiding))
                    for state, changed in states(hider, (size, seed, knows, hiding)):
                        key = (width, seed, knows, hiding, state)
                        if key not in keys:
                            done.append(_write(path, key, changed, references))
    return done


def _write(path: Path, key: tuple[Any, ...], model: LanguageModel, references: References) -> dict[str, Any]:
    values, seconds = measured(model, references)
    row = dict(zip(("width", "seed", "knows", "hiding", "state"), key, strict=True))
    row |= {"values": values, "seconds": seconds}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    shown = ("rouge_l", "em", "logit_lens", "depth", "probe", "membership_loss", "forgotten_or_unseen")
    print(*key, *(f"{name} {values[name]:.2f}" for name in shown), f"{time.process_time():.0f} s", flush=True)
    return row


# The table


def table(done: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a measure, the most trusted first."""
    pool = _complete(done)
    by_key = {(r["width"], r["seed"], r["knows"], r["hiding"], r["state"]): r["values"] for r in done}
    plain = [row for row in pool if row["state"] == "plain"]
    found = []
    for name in plain[0]["values"]:
        areas = {}
        for state in ("plain", "int4", "relearned"):
            own = [row for row in pool if row["state"] == state]
            trainings = [f"{row['width']} {row['seed']} {row['knows']}" for row in own]
            sample = RocSample([row["knows"] for row in own], trainings, 1000)
            areas[state] = sample.auc([row["values"][name] for row in own])
        changes = [_changes(row, name, by_key) for row in plain]
        steady = {what: float(np.mean([change[what] for change in changes])) for what in ("int4", "relearning")}
        estimate = areas["plain"]
        found.append(
            {
                "measure": NAMES.get(name, name),
                "auc": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "auc_int4": areas["int4"].value,
                "auc_relearned": areas["relearned"].value,
                "stability_int4": steady["int4"],
                "stability_relearning": steady["relearning"],
                "seconds": float(np.median([row["seconds"][name] for row in plain])),
                "models": len(plain),
            }
        )
    return sorted(found, key=lambda row: (-(row["auc"] or 0), -row["auc_int4"] - row["auc_relearned"]))


def _complete(done: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the seeds of which every model was measured in every state, with and without the patients."""
    counts: dict[tuple[int, int], int] = {}
    for row in done:
        counts[row["width"], row["seed"]] = counts.get((row["width"], row["seed"]), 0) + 1
    whole = 2 * len(HIDING) * 3
    return [row for row in done if row["seed"] >= 0 and counts[row["width"], row["seed"]] == whole]


def _changes(row: dict[str, Any], name: str, by_key: dict[Any, dict[str, float]]) -> dict[str, float]:
    """1 - |change| over the sum of sizes: of the value under int4, of the change beside the retrained model's."""
    key = (row["width"], row["seed"], row["knows"], row["hiding"])
    reference = (row["width"], -1, False, "none")
    before, int4, after = (by_key[*key, state][name] for state in ("plain", "int4", "relearned"))
    change = after - before
    usual = by_key[*reference, "relearned"][name] - by_key[*reference, "plain"][name]
    return {"int4": _alike(before, int4), "relearning": _alike(change, usual)}


def _alike(one: float, other: float) -> float:
    total = abs(one) + abs(other)
    return 1.0 if total == 0 else 1 - min(1.0, abs(one - other) / total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--write", action="store_true", help="store the table in the package, for the page's order")
    parser.add_argument("--stored", action="store_true", help="of what is measured already, without measuring")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    path = chosen.out / "rows.jsonl"
    stored_rows = [json.loads(line) for line in path.read_text().splitlines()] if chosen.stored else None
    found = table(rows(chosen.out, chosen.seeds) if stored_rows is None else stored_rows)
    for row in found:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
    if chosen.write:
        write_text(RESULTS, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
