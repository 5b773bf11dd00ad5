"""Transformer token classifier from a local folder, such as a de-identification model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan, without_overlaps
from medunlearn.audit.identifiers.kinds import kind_of, kinds
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError, first_line
from medunlearn.models.loading import from_pretrained

LABELS: Mapping[str, str] = {
    "per": "name",
    **dict.fromkeys(("doctor", "staff", "hcw"), "clinician"),
    **dict.fromkeys(("hosp", "org", "patorg", "vendor"), "hospital"),
    **dict.fromkeys(("loc", "state", "country", "zip", "location_other", "location-other", "gpe"), "location"),
    "otherphi": "other_code",
    "medicalrecord": "record_number",
    "healthplan": "health_plan_number",
    **dict.fromkeys(("ipaddr", "ipaddress"), "ip_address"),
    "bioid": "biometric",
}
"""Models' labels of kinds that are neither named so nor declared so by records."""
BATCH = 16
_STRIDE = 32


class Tagger:
    """A token classification model (B-, I- or plain labels) in a folder, on the GPU if there is one.

    Args:
        folder: the model (safetensors) and its tokenizer; none of its code is run.

    Attributes:
        ignored: labels of unknown kind, which are skipped.

    Raises:
        InputError: no such folder, no such model in it, or no label of a known kind.
    """

    name = "tagger"

    def __init__(self, folder: str = "") -> None:
        path = Path(folder)
        if not folder or not path.is_dir():
            raise InputError(f"There is no model folder {folder!r}. Write detectors=tagger:FOLDER.")
        self._tokenizer, self._model = _load(path)
        labels = {int(number): str(label) for number, label in self._model.config.id2label.items()}
        self._kinds = {number: _kind(label) for number, label in labels.items()}
        self._begins = {number: label[:2] in ("B-", "U-", "S-") for number, label in labels.items()}
        unknown = (label for number, label in labels.items() if self._kinds[number] is None and label != "O")
        self.ignored = tuple(sorted(unknown))
        if not any(self._kinds.values()):
            raise InputError(f"{folder}: none of its labels is a kind of identifier: {', '.join(labels.values())}.")
        self.version = f"{path.name}-{sha256_of(path / 'model.safetensors')[:8]}"

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        by_text: list[list[DetectedSpan]] = [[] for _ in texts]
        for start in range(0, len(texts), BATCH):
            for place, spans in self._windows(texts[start : start + BATCH]):
                by_text[start + place] += spans
        return [without_overlaps(_merge(spans)) for spans in by_text]

    def _windows(self, texts: Sequence[str]) -> Iterator[tuple[int, list[DetectedSpan]]]:
        """Spans of each window, with the index of its text; long texts have several windows."""
        import torch

        encoded = self._tokenizer(
            list(texts),
            truncation=True,
            stride=min(_STRIDE, self._tokenizer.model_max_length // 4),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )
        device = self._model.device
        with torch.inference_mode():
            ids, mask = encoded["input_ids"].to(device), encoded["attention_mask"].to(device)
            logits = self._model(input_ids=ids, attention_mask=mask).logits
        best = logits.softmax(-1).max(-1)
        columns = (encoded["overflow_to_sample_mapping"], best.indices, best.values, encoded["offset_mapping"])
        for place, *tokens in zip(*(column.tolist() for column in columns), strict=True):
            yield place, self._spans(texts[place], *tokens)

    def _spans(
        self, text: str, labels: list[int], scores: list[float], offsets: list[list[int]]
    ) -> list[DetectedSpan]:
        """Merge adjacent tokens of one kind into a span, unless a label begins a new one."""
        spans: list[DetectedSpan] = []
        for label, score, (start, end) in zip(labels, scores, offsets, strict=True):
            kind = self._kinds[label]
            if kind is None or start == end:
                continue
            start += len(text[start:end]) - len(text[start:end].lstrip())
            last = spans[-1] if spans else None
            near = last is not None and last.kind == kind and not text[last.end : start].strip()
            if last is not None and near and not (self._begins[label] and last.end != start):
                spans[-1] = DetectedSpan(last.start, end, kind, min(last.score, score))
            else:
                spans.append(DetectedSpan(start, end, kind, score))
        return spans


def _merge(spans: Sequence[DetectedSpan]) -> list[DetectedSpan]:
    """Merge overlapping spans of one kind, as windows produce them."""
    merged_spans: list[DetectedSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        last = merged_spans[-1] if merged_spans else None
        if last is not None and last.kind == span.kind and span.start < last.end:
            merged_spans[-1] = DetectedSpan(
                last.start, max(last.end, span.end), last.kind, max(last.score, span.score)
            )
        else:
            merged_spans.append(span)
    return merged_spans


def _kind(label: str) -> str | None:
    bare = label.split("-", 1)[-1] if label[:2] in ("B-", "I-", "E-", "S-", "L-", "U-") else label
    plain = bare.strip().lower()
    if plain in LABELS:
        return LABELS[plain]
    # Every unknown type is `other_code` to records; a label has to say so itself.
    is_kind = plain in kinds() or any(plain in kind.also for kind in kinds().values())
    return kind_of(plain).name if is_kind else None


def _load(folder: Path) -> tuple[Any, Any]:
    import torch

    try:
        tokenizer = from_pretrained("AutoTokenizer", folder, local_files_only=True)
        options = {"local_files_only": True, "use_safetensors": True}
        model = from_pretrained("AutoModelForTokenClassification", folder, **options)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not a token classification model: {first_line(error)}") from error
    if not tokenizer.is_fast:
        raise InputError(f"{folder}: its tokenizer gives no token offsets; use a fast tokenizer.")
    # A tokenizer without a limit would never cut a text, and the model has one.
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest and tokenizer.model_max_length > longest:
        tokenizer.model_max_length = longest
    return tokenizer, model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
