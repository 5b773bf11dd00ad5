"""The same work by transformers alone, as peers do it, for on_gpu.py: padded batches, logits of every position."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from ranks import separate
from scoring import plain
from torch import Tensor

from medunlearn.models.batching import is_out_of_memory, let_go
from medunlearn.models.load import LanguageModel
from medunlearn.models.precision import autocast
from medunlearn.models.sequences import TokenSequence
from medunlearn.probes.material import loop_settings, phase_plans
from medunlearn.training.batch_plan import micro_batches
from medunlearn.training.trainable import choose_trainable, trained

separate_ranks = separate


def padded(rows: Sequence[TokenSequence], pad: int, device: torch.device) -> dict[str, Tensor]:
    """One padded batch with labels of scored tokens."""
    longest = max(len(row.ids) for row in rows)
    ids = torch.full((len(rows), longest), pad)
    attention, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for place, row in enumerate(rows):
        count = len(row.ids)
        ids[place, :count] = torch.tensor(row.ids)
        attention[place, :count] = 1
        labels[place, row.scored_from : count] = ids[place, row.scored_from : count]
    batch = {"input_ids": ids, "attention_mask": attention, "labels": labels}
    return {name: tensor.to(device) for name, tensor in batch.items()}


def transformers_steps(live: LanguageModel, world: Any, settings: Any) -> Any:
    """Steps over the batches of a training, as transformers' Trainer takes them: accumulated, clipped, AdamW.

    Logits of all positions are in memory, so passes that fit are smaller than ours; they are halved until they do.
    """
    size, at = settings.micro_batch_size, None
    while at is None:
        try:
            at = _steps(live, world, settings, size)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or size == 1:
                raise
        if at is None:
            live.model.zero_grad(set_to_none=True)
            let_go()
            size //= 2
    return at


def _steps(live: LanguageModel, world: Any, settings: Any, size: int) -> Any:
    from on_gpu_speed import WARM, Measured, wait

    plan = phase_plans(world.benchmark, settings, live)["finetune"]
    loop = loop_settings(settings, settings.seed)
    model = choose_trainable(live.model, settings.trainable).train()
    parameters = list(trained(model).values())
    optimizer = torch.optim.AdamW(parameters, lr=loop.lr, weight_decay=loop.weight_decay, fused=True)
    seconds, tokens, losses = list[float](), list[int](), list[float]()
    for number in range(plan.steps):
        wait()
        started, step = time.perf_counter(), plan.step(number)
        scored = sum(row.scored for rows in step.values() for row in rows)
        total = 0.0
        for piece in micro_batches(step, size):
            (rows,) = piece.values()
            with autocast(live.device, loop.precision):
                loss = model(**padded(rows, 0, live.device), use_cache=False, num_items_in_batch=scored).loss
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(parameters, loop.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait()
        seconds.append(time.perf_counter() - started)
        tokens.append(sum(len(row.ids) for rows in step.values() for row in rows))
        losses.append(total)
    full = [place for place in range(WARM, len(seconds)) if tokens[place] > 0.5 * tokens[0]]
    mean = sum(tokens[place] for place in full) / len(full)
    return Measured(0.0, [seconds[place] for place in full], mean, size, losses[0])


def transformers_scores(live: LanguageModel, rows: Sequence[TokenSequence], batch_size: int) -> Any:
    """Log-probabilities of answers from whole logits."""
    return plain(live.model, rows, batch_size)


def transformers_answers(live: LanguageModel, rows: Sequence[TokenSequence], new: int) -> Tensor:
    """Greedy answers by ``generate``, to prompts padded on the left."""
    longest = max(len(row.prompt) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    attention = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, longest - len(row.prompt) :] = torch.tensor(row.prompt)
        attention[place, longest - len(row.prompt) :] = 1
    with torch.inference_mode():
        answers: Tensor = live.model.generate(
            ids.to(live.device),
            attention_mask=attention.to(live.device),
            max_new_tokens=new,
            do_sample=False,
            pad_token_id=0,
        )
    return answers
