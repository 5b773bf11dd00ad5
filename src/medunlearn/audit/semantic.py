"""Measures that need a further model, as a stage of an audit: BERTScore, BARTScore, cosine similarity, entailment.

They compare the first 100 tokens of response and original (Memorization in Large Language Models in Medicine,
Section 3.1, "Approximate- and semantic-measures"). Each model is loaded once, and not for complete measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medunlearn.audit.measures import OF_TOOLS, measures_with_models
from medunlearn.audit.stored_items import StoredItems
from medunlearn.config.audit import AuditParts
from medunlearn.data.leftovers import read_whole
from medunlearn.data.storage import read_json, write_json
from medunlearn.metrics import get_metric
from medunlearn.metrics.item_scoring import scores_by_measure
from medunlearn.metrics.measure import Tool
from medunlearn.metrics.needs import load_tools
from medunlearn.metrics.pair_scores import NO_BART, NO_ENCODER, Texts, bart_score, bert_score
from medunlearn.metrics.score_store import FOLDER, ScoreStore
from medunlearn.results.scores import replace_scores

__all__ = ["NO_BART", "NO_ENCODER", "add_semantic", "bart_score", "bert_score", "first_bart_tokens"]

SEMANTIC_FILE = "semantic.json"


def add_semantic(
    folder: Path, parts: AuditParts, measures: Sequence[str] = (), *, device: str = "auto", quiet: bool = False
) -> None:
    """Add the measures of the named models to ``scores.parquet``, unless they were computed with the same models.

    Args:
        measures: measures that were asked for by name.
    """
    from medunlearn.models.folders import model_identity

    named = ((tool, getattr(parts, setting)) for tool, (setting, _) in OF_TOOLS.items())
    sources: dict[Tool, str] = {tool: source for tool, source in named if source}
    done, pending = read_whole(folder / SEMANTIC_FILE, read_json) or {}, {}
    for name in measures_with_models(measures, parts):
        measure = get_metric(name)
        used = [sources[tool] for tool in OF_TOOLS if tool in measure.needs]
        if "bart_starts" in measure.needs:
            used.append(sources["bart"])
        identities = [model_identity(source) for source in used]
        identity = identities if len(identities) > 1 else identities[0]
        if done.get(measure.name) != identity:
            pending[measure.name] = measure
            done[measure.name] = identity
    if not pending:
        return
    stored = StoredItems.read(folder)
    items = stored.items
    if any("bart_starts" in measure.needs for measure in pending.values()):
        columns = ([item.response for item in items], [item.reference for item in items])
        cut = zip(*(first_bart_tokens(texts, sources["bart"]) for texts in columns), strict=True)
        items = [replace(item, bart_starts=(str(a), str(b))) for item, (a, b) in zip(items, cut, strict=True)]
    needed = {tool: source for tool, source in sources.items() if any(tool in m.needs for m in pending.values())}
    store = ScoreStore(folder / FOLDER, {name: done[name] for name in pending})
    tools = load_tools(needed, device, quiet=quiet)
    scores = scores_by_measure(items, list(pending.values()), tools, store=store)
    replace_scores(folder, stored.rows(scores), measure=list(pending))
    write_json(folder / SEMANTIC_FILE, done)
    store.remove()


def first_bart_tokens(texts: Texts, bart: str) -> list[str | None]:
    """Texts cut to their first 100 tokens of a BART model's tokenizer, as the paper's released code does.

    Args:
        bart: folder or hub id.
    """
    from medunlearn.audit.units import tokenizer_in
    from medunlearn.models.folders import model_folder

    encoded = iter(tokenizer_in(model_folder(bart)).encode([text for text in texts if text is not None]))
    return [None if text is None else next(encoded).start_of(text) for text in texts]
