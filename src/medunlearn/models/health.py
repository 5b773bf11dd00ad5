"""Health of a model: finite weights and logits, a tokenizer that fits, answers that differ.

A broken model repeats nothing and answers nothing right, so its scores read like perfect forgetting. It is
refused, or, where the user insists (``--allow-broken``), every page about it begins with a warning and no verdict
is read from it. Imports torch only to run a model: stored answers are checked without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medunlearn.errors import ModelError, NonFiniteLossError, first_few

LEAST_ANSWERS = 5
"""Different reference answers; the same answer to fewer questions may be right, as yes or no is."""
PROMPT = "Question: What was found in this patient, and which treatment was given?\nAnswer:"


def refuse_small_embedding(model: Any, tokenizer: Any, source: str) -> None:
    """Refuse a tokenizer that gives ids which the embedding has no row for.

    Markers that no text of ours holds are left out: Gemma 3's text models have one for images past their last row.

    Raises:
        ModelError: the vocabulary is smaller than the tokenizer.
    """
    rows = int(model.get_input_embeddings().weight.shape[0])
    in_use = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id}
    template = str(tokenizer.chat_template or "")
    markers = {
        number
        for number, token in getattr(tokenizer, "added_tokens_decoder", {}).items()
        if token.special and number not in in_use and token.content not in template
    }
    largest = max((number for number in tokenizer.get_vocab().values() if number not in markers), default=-1)
    if largest >= rows:
        raise ModelError(
            f"The tokenizer of {source} is larger than its model: it gives ids up to {largest}, and the embedding "
            f"has {rows} rows. Save the tokenizer that the model was trained with there, or grow the model: "
            "model.resize_token_embeddings(len(tokenizer))."
        )


def non_finite(model: Any) -> str:
    """The problem of a model with NaN or infinity in its parameters, tied ones once; "" of a healthy one.

    Of sharded parameters this process's share is looked at.
    """
    parts = [
        (name, tensor.to_local() if hasattr(tensor, "to_local") else tensor)
        for name, tensor in model.named_parameters()
        if tensor.is_floating_point()
    ]
    floating = [(name, tensor) for name, tensor in parts if tensor.numel()]
    bad = [name for name, tensor in floating if not _finite(tensor.detach())]
    if not bad:
        return ""
    return f"{len(bad)} of its {len(floating)} weight tensors hold NaN or infinity ({first_few(bad)})"


def _finite(tensor: Any) -> bool:
    # NaN passes through a minimum and a maximum, and neither needs memory of the tensor's size.
    return all(edge.isfinite().item() for edge in tensor.aminmax())


def refuse_non_finite(model: Any, consequence: str) -> None:
    """Refuse weights that a step or an edit left as NaN or infinity.

    Raises:
        NonFiniteLossError: says which.
    """
    if problem := non_finite(model):
        raise NonFiniteLossError(f"{consequence}: {problem}. Lower --lr or the strength of the edit, or use fp32.")


def bad_logits(model: Any, tokenizer: Any) -> str:
    """The problem of a model whose logits on a prompt are not finite; "" of a healthy one."""
    import torch

    ids = torch.tensor([tokenizer(PROMPT)["input_ids"]], device=next(model.parameters()).device)
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits
    finally:
        model.train(training)
    return "" if _finite(logits) else "its logits are NaN or infinite on an ordinary prompt"


def weight_problems(model: Any, tokenizer: Any) -> tuple[str, ...]:
    """Problems of the weights in memory; none of a healthy model."""
    problem = non_finite(model) or bad_logits(model, tokenizer)
    return (problem,) if problem else ()


def answer_problems(answers: Iterable[tuple[str, str, bool]]) -> tuple[str, ...]:
    """Problems of answers: all empty, or all the same, though :data:`LEAST_ANSWERS` reference answers differ.

    Answers that were cut off may have gone on differently: then the reference answers must differ as early.

    Args:
        answers: (reference, answer, whether the model ended it by itself) of each question.
    """
    rows = [(reference.strip(), answer.strip(), finished) for reference, answer, finished in answers]
    if len({answer for _, answer, _ in rows}) != 1:
        return ()
    same = rows[0][1]
    early = None if not same or all(finished for *_, finished in rows) else len(same)
    if len({reference[:early] for reference, *_ in rows}) < LEAST_ANSWERS:
        return ()
    return (f"all of its {len(rows):,} answers are {'the same' if same else 'empty'}",)


def refuse_broken(models: Mapping[str, Sequence[str]], *, allowed: bool = False) -> None:
    """Refuse to show numbers of broken models.

    Args:
        models: label -> its problems.
        allowed: the user insists.

    Raises:
        ModelError: a model has problems; its answers stay stored.
    """
    broken = {label: problems for label, problems in models.items() if problems}
    if broken and not allowed:
        raise ModelError(
            f"{' '.join(banner(broken))} Make it again with a smaller learning rate, copy it again, or ask it in "
            "another way. What it answered is kept; --allow-broken shows its numbers with a warning."
        )


def banner(models: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Warnings for the top of a page, one a broken model.

    Args:
        models: label -> its problems.
    """
    return tuple(
        f"{label} is a broken model: {'; '.join(problems)}. Its numbers say nothing about forgetting or "
        "memorization, and no verdict is read from them."
        for label, problems in models.items()
        if problems
    )
