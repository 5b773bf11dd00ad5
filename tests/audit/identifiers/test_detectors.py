"""Detectors: what each finds, that none asks the network, and what they are worth on labelled text."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from medunlearn.audit.identifiers.detectors import DetectedSpan, make_detector, without_overlaps
from medunlearn.audit.identifiers.detectors.patterns import Patterns
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.recall import (
    LabelledText,
    detector_recall,
    invented_notes,
    label_records,
    read_labelled,
)
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import InputError, SourceError, UnknownNameError

TEXT = (
    "Jorilvance Morvaquill, born 1961-04-03, MRN HX-204511, SSN 900-01-0001, phone 299-555-0123 x456, was seen on "
    "05/06/2014 by Dr. Tamb Alder at Tarnhythe Clinic; e-mail a.b@example.org, host 10.1.2.3. This 61-year-old man "
    "lives at 1200 Inkwell Lane, Lornvale. Fax: (299) 555-0124. Works as a baker."
)
THERE = [
    ("name", "Jorilvance Morvaquill"),
    ("date", "1961-04-03"),
    ("record_number", "HX-204511"),
    ("ssn", "900-01-0001"),
    ("phone", "299-555-0123 x456"),
    ("date", "05/06/2014"),
    ("clinician", "Tamb Alder"),
    ("hospital", "Tarnhythe Clinic"),
    ("email", "a.b@example.org"),
    ("ip_address", "10.1.2.3"),
    ("age", "61-year-old"),
    ("location", "1200 Inkwell Lane, Lornvale"),
    ("fax", "(299) 555-0124"),
    ("profession", "baker"),
]


class Always:
    """Finds what it was told to."""

    name, version = "always", "1"

    def __init__(self, found: Sequence[Sequence[DetectedSpan]]) -> None:
        self.found = found

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        return [list(spans) for spans in self.found]


@pytest.fixture(scope="module")
def presidio() -> Iterator[Any]:
    pytest.importorskip("presidio_analyzer", reason="the extra `identifiers` is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda *_: pytest.fail("it asked the network"))
        yield make_detector("presidio")


def told(spans: Sequence[DetectedSpan]) -> list[tuple[str, str]]:
    return [(span.kind, TEXT[span.start : span.end]) for span in spans]


def test_patterns_find_what_has_a_form_or_a_cue() -> None:
    assert told(Patterns().find([TEXT])[0]) == THERE


@pytest.mark.parametrize(
    "text",
    [
        "Sodium was 128 mmol/L, pressure 128/74, platelets 210, a mass of 12 mm, week 4, 100 mg daily.",
        "The Chest CT and Magnetic Resonance showed Hodgkin lymphoma, stage 2.",
        "Version 13.20.30 of 3 parts; ratio 1-2-3; and so on.",
    ],
)
def test_patterns_find_nothing_where_nothing_is(text: str) -> None:
    assert Patterns().find([text]) == [[]]


def test_presidio_finds_the_same_without_a_model_or_a_network(presidio: Any) -> None:
    assert told(presidio.find([TEXT])[0]) == THERE
    assert presidio.version.endswith(Patterns().version)


def test_presidio_knows_numbers_that_our_rules_do_not(presidio: Any) -> None:
    text = "Her card is 4012 8888 8888 1881, his phone +44 20 7946 0958."
    assert Patterns().find([text]) == [[]]
    assert [span.kind for span in presidio.find([text])[0]] == ["account_number", "phone"]


def test_without_presidio_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "presidio_analyzer", None)
    with pytest.raises(InputError, match=r"medunlearn\[identifiers\].*patterns"):
        make_detector("presidio")


def test_wrong_names_are_answered() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'presidio'"):
        make_detector("presido")
    with pytest.raises(InputError, match="no model folder"):
        make_detector("tagger")


def test_of_spans_that_overlap_the_surest_stays() -> None:
    spans = [DetectedSpan(0, 5, "name", 0.5), DetectedSpan(3, 9, "date", 0.9), DetectedSpan(9, 12, "age", 0.1)]
    assert without_overlaps(spans) == spans[1:]


def test_recall_and_precision_by_hand() -> None:
    texts = [
        LabelledText("a", "x" * 40, (DetectedSpan(0, 10, "name"), DetectedSpan(20, 24, "date"))),
        LabelledText("b", "x" * 40, (DetectedSpan(0, 10, "clinician"), DetectedSpan(20, 30, "age"))),
    ]
    found = [
        [
            DetectedSpan(0, 4, "name"),
            DetectedSpan(20, 24, "age"),
            DetectedSpan(30, 34, "date"),
        ],  # too short a name; a date by another kind
        [
            DetectedSpan(0, 6, "name"),
            DetectedSpan(6, 9, "phone"),
        ],  # more than half of a clinician; a kind that nobody labelled
    ]
    table = detector_recall(Always(found), texts, replicates=50).set_index("kind")
    assert table.loc["name", ["labelled", "found", "recall"]].tolist() == [1, 0, 0.0]
    assert table.loc["clinician", ["labelled", "found", "recall"]].tolist() == [1, 1, 1.0]
    assert table.loc["date", ["labelled", "found", "detected", "right"]].tolist() == [1, 1, 1, 0]
    assert table.loc["age", ["labelled", "found", "detected", "right"]].tolist() == [1, 0, 1, 1]
    # Four labels, two of them found; of four spans of labelled kinds three are right.
    assert table.loc["all", ["labelled", "found", "recall"]].tolist() == [4, 2, 0.5]
    assert table.loc["all", ["detected", "right", "precision"]].tolist() == [5, 3, 0.75]
    assert table.loc["phone", "reason"] == "no text has a label of this kind"
    assert table.loc["phone", "precision"] != table.loc["phone", "precision"]
    assert table.loc["all", "recall_low"] == table.loc["all", "recall_high"] == 0.5


def test_invented_notes_label_what_they_hold() -> None:
    notes = invented_notes(40, seed=3)
    assert notes == invented_notes(40, seed=3)
    assert notes != invented_notes(40, seed=4)
    labelled = {span.kind for note in notes for span in note.spans}
    assert labelled >= {"name", "clinician", "date", "age", "hospital", "location", "phone", "ssn", "record_number"}
    for note in notes:
        assert all(note.text[span.start : span.end].strip() for span in note.spans)
        assert "{" not in note.text


def test_patterns_miss_bare_names_and_little_else_on_invented_notes() -> None:
    table = detector_recall(Patterns(), invented_notes(60), replicates=100).set_index("kind")
    assert table.loc["name", "recall"] < 0.9
    assert table.loc["name", "recall_low"] < table.loc["name", "recall"] < table.loc["name", "recall_high"]
    assert (table.loc[["date", "age", "ssn", "email", "hospital"], "recall"] > 0.95).all()
    assert table.loc["all", "precision"] > 0.95


def test_records_are_labelled_with_what_they_declare() -> None:
    record = Record("r", "Ada Vane came. ADA VANE left.", {}, (Identifier("name", "Ada Vane"),))
    (one,) = label_records([record], {"r": "ada"})
    assert one == LabelledText("ada", record.text, (DetectedSpan(0, 8, "name"), DetectedSpan(15, 23, "name")))


def test_a_labelled_file_is_read_and_its_mistakes_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    rows: list[dict[str, Any]] = [
        {"text": "Ada, 61", "subject": "a", "spans": [{"start": 0, "end": 3, "kind": "name"}]}
    ]
    path.write_text(json.dumps(rows[0]))
    assert read_labelled(path) == [LabelledText("a", "Ada, 61", (DetectedSpan(0, 3, "name"),))]
    rows += [{"text": "x", "spans": [{"start": 0, "end": 9, "kind": "name"}]}, {"spans": []}]
    rows += [{"text": "x", "spans": [{"start": 0, "end": 1, "kind": "nane"}]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(SourceError, match=r"jsonl:2: .*0 to 9.*jsonl:3: has no text.*Did you mean 'name'"):
        read_labelled(path)


LABELS = ("O", "B-PATIENT", "I-PATIENT", "B-DATE", "I-DATE", "B-MISC")


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT whose embeddings are set by hand: it labels a token by what the token is."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

    torch.set_num_threads(1)
    words = ["[PAD]", "[UNK]", "ada", "vane", "may", "4", "came", "on", "xray"]
    label = {"ada": 1, "vane": 2, "may": 3, "4": 4, "xray": 5}
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    config = BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=16, id2label=dict(enumerate(LABELS)),
        label2id={one: place for place, one in enumerate(LABELS)},
    )  # fmt: skip
    model = BertForTokenClassification(config)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.zero_()
        for name, tensor in model.named_parameters():
            if name.endswith("LayerNorm.weight"):
                tensor.fill_(1.0)
        for place, word in enumerate(words):
            model.bert.embeddings.word_embeddings.weight[place, label.get(word, 0)] = 1.0
        model.classifier.weight[: len(LABELS), : len(LABELS)] = 5 * torch.eye(len(LABELS))
    folder = tmp_path_factory.mktemp("tagger")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(
        folder
    )
    model.save_pretrained(folder, safe_serialization=True)
    return folder


def test_a_tagger_in_a_folder_gives_spans_of_our_kinds(tagged: Path) -> None:
    tagger = make_detector(f"tagger:{tagged}")
    text = "ada vane came on may 4 xray"
    (spans,) = tagger.find([text])
    assert [(one.kind, text[one.start : one.end]) for one in spans] == [("name", "ada vane"), ("date", "may 4")]
    assert all(0.5 < one.score <= 1 for one in spans)
    assert tagger.ignored == ("B-MISC",)  # type: ignore[attr-defined]
    assert {one.kind for one in spans} <= set(kinds())


def test_a_tagger_reads_texts_longer_than_its_window_in_pieces(tagged: Path) -> None:
    tagger = make_detector(f"tagger:{tagged}")
    text = " ".join(["came on"] * 30 + ["ada vane"] + ["came on"] * 30)
    spans = tagger.find(["came", text, "ada"])
    assert [[text[one.start : one.end] for one in spans[1]], spans[0]] == [["ada vane"], []]
    assert spans[2] == [DetectedSpan(0, 3, "name", spans[2][0].score)]


def test_a_folder_without_such_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no token classification model"):
        make_detector(f"tagger:{tmp_path}")
