"""Health checks of a model: finite weights and logits, a matching tokenizer, answers that vary.

A broken model repeats nothing and answers nothing correctly, so its scores look like perfect forgetting. It is
refused or, with ``--allow-broken``, every page about it begins with a warning and no verdict is derived from it.
Imports torch only to run a model: stored answers are checked without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medunlearn.errors import ModelError, NonFiniteLossError, first_few

LEAST_ANSWERS = 5
"""Different reference answers; the same answer to fewer questions may be right, as yes or no is."""
PROMPT = "Question: What was found in this patient, and which treatment was given?\nAnswer:"


def refuse_small_embedding(model: Any, tokenizer: Any, source: str) -> None:
    """Refuse a tokenizer whose ids exceed the rows of the embedding.

    Markers that never occur in our texts are ignored: Gemma 3's text models have one for images beyond the last
    row.

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
    """The problem of a model with NaN or infinity in its parameters; "" for a healthy one.

    For sharded parameters, this process's share is checked.
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
    """Refuse weights that became NaN or infinite in a step or an edit.

    Raises:
        NonFiniteLossError: names them.
    """
    if problem := non_finite(model):
        raise NonFiniteLossError(f"{consequence}: {problem}. Lower --lr or the strength of the edit, or use fp32.")


def bad_logits(model: Any, tokenizer: Any) -> str:
    """The problem of a model with non-finite logits on a test prompt; "" for a healthy one."""
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
    """Problems of the weights in memory; empty for a healthy model."""
    problem = non_finite(model) or bad_logits(model, tokenizer)
    return (problem,) if problem else ()


def answer_problems(answers: Iterable[tuple[str, str, bool]]) -> tuple[str, ...]:
    """Problems of answers: all empty, or all equal although :data:`LEAST_ANSWERS` reference answers differ.

    Truncated answers may have differed later, so the reference answers must differ within the same length.

    Args:
        answers: (reference, answer, whether the model ended it) for each question.
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
    """Refuse to show results of broken models.

    Args:
        models: label -> its problems.
        allowed: the user passed ``--allow-broken``.

    Raises:
        ModelError: a model has problems; its answers stay stored.
    """
    broken = {label: problems for label, problems in models.items() if problems}
    if broken and not allowed:
        raise ModelError(
            f"{' '.join(banner(broken))} Train it again with a smaller learning rate, copy it again, or use "
            "another template; before a server, look whether a filter answers in its place. Its answers are "
            "stored; --allow-broken shows its numbers with a warning."
        )


def banner(models: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Warnings for the top of a page, one per broken model.

    Args:
        models: label -> its problems.
    """
    return tuple(
        f"{label} is a broken model: {'; '.join(problems)}. Its numbers say nothing about forgetting or "
        "memorization, and no verdict is read from them."
        for label, problems in models.items()
        if problems
    )
