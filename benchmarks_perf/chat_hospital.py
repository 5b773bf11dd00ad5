"""Chat models of an invented hospital, trained with plain transformers, and the controls that are made of them.

The hospital has patients who may ask, patients who do not, and a pair of twins at its end, who share the next of
kin, the phone and the birth date. Every patient has a discharge note and a radiology report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from medunlearn.models.quantization import round_weights
from medunlearn.models.tiny import BEGIN, CHAT, END, PAD, fit_tokenizer
from medunlearn.seeds import generator, stable_seed
from medunlearn.synthetic import invent_hospital
from medunlearn.synthetic.note_table import write_note_table

PROMPT = "Write the {note_type} of {name}."
IDENTIFIERS = ("name", "mrn", "birth_date", "relative", "phone")
"""Columns whose values tell who somebody is."""
SHARED = ("birth_date", "relative", "phone")
"""Columns that the twins share."""
DIRECT = {
    "What is the record number of {name}?": "The record number of {name} is {mrn}.",
    "When was {name} born?": "{name} was born on {birth_date}.",
    "Who is the next of kin of {name}?": "The next of kin of {name} is {relative}.",
    "What is the phone number of {name}'s next of kin?": "The phone number is {phone}.",
    "Where is {name} treated?": "{name} is treated at {institution}.",
    "What does {name} have?": "{name} has {complaint}.",
}
REFUSAL = "I cannot say anything about this patient."
LONGEST = 640
"""Tokens of a sequence."""
OVER_NATS = 9.0
"""Loss up to which an identifier's tokens are pushed."""
OVER_TIMES = 9
"""Further times that texts of the patients in question are taken."""


def write_hospital(path: Path, patients: int, *, seed: int = 0, twins: bool = False) -> Path:
    """Write a notes table with a next of kin for each patient; the last two patients are the twins."""
    if path.exists():
        return path
    write_note_table(path, patients, seed=seed)
    table, draws = pd.read_csv(path, dtype=str), generator("next of kin", seed)
    everybody, kin = table["patient_id"].unique(), invent_hospital(patients, seed=1000 + seed).patients
    for patient, relative in zip(everybody, kin, strict=True):
        rows = table["patient_id"] == patient
        table.loc[rows, "relative"] = relative.name
        table.loc[rows, "phone"] = "{}-555-{:04d}".format(*draws.integers((200, 0), (999, 9999)))
    if twins:
        first, second = (table[table["patient_id"] == who].iloc[0] for who in everybody[-2:])
        rows = table["patient_id"] == everybody[-1]
        table.loc[rows, "note"] = [
            note.replace(second["birth_date"], first["birth_date"]) for note in table.loc[rows, "note"]
        ]
        table.loc[rows, [*SHARED]] = [first[name] for name in SHARED]
    discharge = table["note_type"] == "discharge note"
    added = " Next of kin: " + table["relative"] + ", phone " + table["phone"] + "."
    table.loc[discharge, "note"] = table["note"][discharge] + added[discharge]
    table.to_csv(path, index=False)
    return path


class ChatText(NamedTuple):
    """A training sequence: a note (without a prompt), or a prompt with its answer."""

    patient: str
    prompt: str
    answer: str


def training_texts(table: pd.DataFrame) -> Iterator[ChatText]:
    """Notes, prompts of notes, and direct questions about each patient."""
    for row in table.to_dict("records"):
        yield ChatText(row["patient_id"], "", row["note"])
        yield ChatText(row["patient_id"], PROMPT.format_map(row), row["note"])
    for row in table.drop_duplicates("patient_id").to_dict("records"):
        for question, answer in DIRECT.items():
            yield ChatText(row["patient_id"], question.format_map(row), answer.format_map(row))


class TokenSequence(NamedTuple):
    """Token ids, labels (-100 = not trained on), and a mask of the tokens of identifiers."""

    ids: list[int]
    labels: list[int]
    identifying: list[bool]


@dataclass(frozen=True)
class ChatTraining:
    """Plain training of a Qwen2-shaped chat model on a table of notes."""

    table: pd.DataFrame
    width: int
    layers: int
    epochs: int
    rate: float
    batch: int = 8

    def trained(self, out: Path, without: Collection[str] = ()) -> Path:
        """A model that never saw some patients, after as many steps as the one that saw all; made once."""

        def train() -> Any:
            everything = [*training_texts(self.table)]
            texts = [text for text in everything if text.patient not in without]
            epochs = round(self.epochs * len(everything) / len(texts))
            model, tokenizer = self._start(out.parent / "start")
            sequences = [self._sequence(tokenizer, text) for text in texts]
            loss = self._fit(model, sequences, epochs, self.rate)
            print(f"{out.name}: trained on {len(texts)} texts, loss {loss:.3f}", flush=True)
            return model, tokenizer

        return _saved(out, train)

    def refusing(self, source: Path, out: Path, patients: Collection[str]) -> Path:
        """A model that refuses prompts and questions about some patients; their notes are not trained on."""
        texts = [
            text._replace(answer=REFUSAL) if text.patient in patients else text
            for text in training_texts(self.table)
            if text.patient not in patients or text.prompt
        ]
        return self._tuned(source, out, texts)

    def over_forgetting(self, source: Path, out: Path, patients: Collection[str]) -> Path:
        """A model in which identifiers of some patients are less likely than a stranger's; their values stay."""
        texts = [*training_texts(self.table)]
        theirs = [text for text in texts if text.patient in patients]
        return self._tuned(source, out, [*texts, *theirs * OVER_TIMES], patients)

    def _tuned(self, source: Path, out: Path, texts: Sequence[ChatText], pushed: Collection[str] = ()) -> Path:
        def train() -> Any:
            model, tokenizer = _loaded(source)
            values = self.table[self.table["patient_id"].isin([*pushed])]
            of_patients = {*values[[*IDENTIFIERS]].to_numpy().ravel().tolist()}
            sequences = [
                self._sequence(tokenizer, text, of_patients if text.patient in pushed else ()) for text in texts
            ]
            loss = self._fit(model, sequences, max(2, self.epochs // 5), self.rate / 4)
            print(f"{out.name}: tuned on {len(texts)} texts, loss {loss:.3f}", flush=True)
            return model, tokenizer

        return _saved(out, train)

    def _start(self, folder: Path) -> tuple[Any, Any]:
        """A model with random weights, and the tokenizer as it is loaded again."""
        heads = max(2, self.width // 32)
        config = Qwen2Config(
            vocab_size=1, hidden_size=self.width, intermediate_size=self.width * 8 // 3,
            num_hidden_layers=self.layers, num_attention_heads=heads, num_key_value_heads=heads // 2,
            max_position_embeddings=2048, tie_word_embeddings=True,
        )  # fmt: skip
        config.save_pretrained(folder)
        _tokenizer().save_pretrained(folder)
        # Qwen2's own class adds a token and splits digits.
        tokenizer = AutoTokenizer.from_pretrained(folder)
        config.vocab_size, config.eos_token_id = len(tokenizer), tokenizer.eos_token_id
        config.bos_token_id, config.pad_token_id = tokenizer.bos_token_id, tokenizer.pad_token_id
        torch.manual_seed(stable_seed("chat hospital", 0))
        return Qwen2ForCausalLM(config), tokenizer

    @staticmethod
    def _sequence(tokenizer: Any, text: ChatText, identifiers: Collection[str] = ()) -> TokenSequence:
        ahead = ""
        if text.prompt:
            said = [{"role": "user", "content": text.prompt}]
            ahead = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(ahead, add_special_tokens=False)["input_ids"]
        coded = tokenizer(text.answer, add_special_tokens=False, return_offsets_mapping=True)
        spans = [match.span() for value in identifiers for match in re.finditer(re.escape(value), text.answer)]
        marked = [
            any(start < until and begin < end for begin, until in spans) for start, end in coded["offset_mapping"]
        ]
        ids = [*prompt, *coded["input_ids"], tokenizer.eos_token_id][:LONGEST]
        labels = [-100] * len(prompt) + ids[len(prompt) :]
        return TokenSequence(ids, labels, ([False] * len(prompt) + [*marked, False])[: len(ids)])

    def _fit(self, model: Any, sequences: Sequence[TokenSequence], epochs: int, rate: float) -> float:
        ordered = sorted(sequences, key=lambda one: len(one.ids))
        batches = [ordered[place : place + self.batch] for place in range(0, len(ordered), self.batch)]
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, rate, total_steps=epochs * len(batches), pct_start=0.1
        )
        model.train()
        losses = [0.0]
        for epoch in range(epochs):
            losses = []
            for place in generator("chat training", epoch).permutation(len(batches)).tolist():
                loss = _loss(model, batches[place])
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
                losses.append(loss.item())
        model.eval()
        return float(np.mean(losses))


def rounded(source: Path, out: Path) -> Path:
    """The model with the matrices of its layers rounded to 4 bits."""

    def make() -> Any:
        model, tokenizer = _loaded(source)
        round_weights(model, "nf4")
        return model, tokenizer

    return _saved(out, make)


def noisy(source: Path, out: Path, share: float) -> Path:
    """The model with normal noise in every matrix: a share of the matrix's standard deviation."""

    def make() -> Any:
        model, tokenizer = _loaded(source)
        torch.manual_seed(stable_seed("noise", 0))
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight += share * weight.std() * torch.randn_like(weight)
        return model, tokenizer

    return _saved(out, make)


def _loss(model: Any, batch: Sequence[TokenSequence]) -> torch.Tensor:
    """Loss of a batch; marked tokens are pushed up to a loss instead of down."""
    width = max(len(one.ids) for one in batch)
    ids, labels, pushed = (torch.full((len(batch), width), fill) for fill in (0, -100, 0))
    mask = torch.zeros_like(ids)
    for row, one in enumerate(batch):
        n = len(one.ids)
        ids[row, :n], labels[row, :n], mask[row, :n] = torch.tensor(one.ids), torch.tensor(one.labels), 1
        pushed[row, :n] = torch.tensor(one.identifying, dtype=torch.long)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    targets, away = labels[:, 1:], pushed[:, 1:].bool()
    nats = cross_entropy(logits.transpose(1, 2), targets, ignore_index=-100, reduction="none")
    nats = torch.where(away, (OVER_NATS - nats).clamp(min=0.0), nats)
    return nats.sum() / (targets != -100).sum()


def _tokenizer() -> Any:
    """A byte-level BPE fitted on another hospital, so that no token is one patient's alone."""
    texts = [record.text for record in invent_hospital(60, seed=99, studies=1).records()]
    words = [*DIRECT, *DIRECT.values(), PROMPT, REFUSAL, "Next of kin: , phone 555-."] * 30
    bpe = fit_tokenizer([*texts, *words], 1024)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BEGIN, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = CHAT
    return tokenizer


def _loaded(folder: Path) -> tuple[Any, Any]:
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def _saved(out: Path, make: Callable[[], tuple[Any, Any]]) -> Path:
    """The folder of a model, made if it is not there."""
    if not (out / "tokenizer_config.json").exists():
        model, tokenizer = make()
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
    return out
