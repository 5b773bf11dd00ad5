"""Spans of each detector, none of which asks the network, and their recall on labelled text."""

from __future__ import annotations

import csv
import json
import re
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medunlearn.audit.identifiers.detectors import UnitedDetectors, cached, make_detector, make_detectors, parts_of
from medunlearn.audit.identifiers.detectors.detected_spans import DetectedSpan, without_overlaps
from medunlearn.audit.identifiers.detectors.gazetteer import gazetteer
from medunlearn.audit.identifiers.detectors.patterns import Patterns
from medunlearn.audit.identifiers.labelled_notes import LabelledText, invented_notes, label_records, read_labelled
from medunlearn.audit.identifiers.recall import detector_overlap, detector_recall
from medunlearn.data.records import Identifier, Record
from medunlearn.errors import InputError, SourceError, UnknownNameError

QUESTIONS = Path(__file__).parents[4] / "shared" / "data" / "medqa" / "questions.jsonl"
REPORTS = Path(__file__).parents[4] / "shared" / "data" / "openi" / "indiana_reports.csv"
TEXT = (
    "Jorilvance Morvaquill, born 1961-04-03, MRN HX-204511, SSN 900-01-0001, phone 299-555-0123 x456, was seen on "
    "05/06/2014 by Dr. Tamb Alder at Tarnhythe Clinic; e-mail a.b@example.org, host 10.1.2.3. This 61-year-old man "
    "lives at 1200 Inkwell Lane, Lornvale. Fax: (299) 555-0124. Works as a baker."
)
IDENTIFIERS = [
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


def identifiers_in(spans: Sequence[DetectedSpan]) -> list[tuple[str, str]]:
    return [(span.kind, TEXT[span.start : span.end]) for span in spans]


def test_no_and_on_are_in_no_name() -> None:
    """YAML reads both as booleans where they stand in a list and are not quoted."""
    assert {"no", "on", "the"} <= gazetteer().no_names
    assert {type(word) for words in vars(gazetteer()).values() for word in words} == {str}
    (spans,) = Patterns().find(["Seen by Dr. On Call and Dr. No Evidence, then by Dr. Tamb Alder."])
    assert [span.kind for span in spans] == ["clinician"]


@pytest.fixture(scope="module")
def presidio() -> Iterator[Any]:
    pytest.importorskip("presidio_analyzer", reason="the extra `identifiers` is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda *_: pytest.fail("it asked the network"))
        yield make_detector("presidio")


def test_patterns_find_forms_and_cues_and_nothing_else() -> None:
    assert identifiers_in(Patterns().find([TEXT])[0]) == IDENTIFIERS
    texts = [
        "Sodium was 128 mmol/L, pressure 128/74, platelets 210, a mass of 12 mm, week 4, 100 mg daily.",
        "The Chest CT and Magnetic Resonance showed Hodgkin lymphoma, stage 2.",
        "Version 13.20.30 of 3 parts; ratio 1-2-3; and so on.",
    ]
    assert Patterns().find(texts) == [[], [], []]


@pytest.mark.skipif(not REPORTS.exists(), reason="the Open-i reports are not beside this checkout")
def test_deidentified_reports_hold_next_to_nothing() -> None:
    with REPORTS.open(encoding="utf-8") as file:
        texts = [" ".join((row["indication"], row["findings"], row["impression"])) for row in csv.DictReader(file)]
    pairs = zip(texts, Patterns().find(texts), strict=True)
    values = [text[span.start : span.end] for text, spans in pairs for span in spans]
    assert len(texts) > 3000
    # What was taken out reads XXXX, and "Dr. XXXX" is a clinician all the same.
    assert len([value for value in values if set(value) - {"X", " "}]) <= 3


@pytest.mark.skipif(not QUESTIONS.exists(), reason="MedQA's questions are not beside this checkout")
def test_questions_that_name_nobody_hold_next_to_no_name() -> None:
    """They are full of what is called after somebody, of drugs and of values."""
    with QUESTIONS.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    texts = [" ".join((row["question"], *row["options"].values())) for row in rows]
    kinds = Counter(span.kind for spans in Patterns().find(texts) for span in spans)
    assert len(texts) == 600
    assert kinds["age"] > 500
    assert kinds["name"] + kinds["clinician"] + kinds["date"] <= 6


def test_presidio_finds_the_same_and_more_without_a_model_or_a_network(presidio: Any) -> None:
    assert identifiers_in(presidio.find([TEXT])[0]) == IDENTIFIERS
    assert presidio.version.endswith(Patterns().version)
    text = "Her card is 4012 8888 8888 1881, his phone +44 20 7946 0958."
    assert [span.kind for span in Patterns().find([text])[0]] == ["phone"]
    assert [span.kind for span in presidio.find([text])[0]] == ["account_number", "phone"]


def test_detectors_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "presidio_analyzer", None)
    with pytest.raises(InputError, match=r"medunlearn\[identifiers\].*patterns"):
        make_detector("presidio")
    with pytest.raises(UnknownNameError, match="Did you mean 'presidio'"):
        make_detector("presido")
    with pytest.raises(InputError, match="no model folder"):
        make_detector("tagger")
    with pytest.raises(InputError, match="is not a token classification model"):
        make_detector(f"tagger:{tmp_path}")


def test_of_spans_that_overlap_the_surest_stays() -> None:
    spans = [DetectedSpan(0, 5, "name", 0.5), DetectedSpan(3, 9, "date", 0.9), DetectedSpan(9, 12, "age", 0.1)]
    assert without_overlaps(spans) == spans[1:]


class Scripted:
    """Detector that returns given spans."""

    name, version = "scripted", "1"

    def __init__(self, *spans: list[DetectedSpan]) -> None:
        self.spans = list(spans)

    def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
        return self.spans


def test_recall_and_precision_by_hand() -> None:
    texts = [
        LabelledText("a", "x" * 40, (DetectedSpan(0, 10, "name"), DetectedSpan(20, 24, "date"))),
        LabelledText("b", "x" * 40, (DetectedSpan(0, 10, "clinician"), DetectedSpan(20, 30, "age"))),
    ]
    # Too short a name; a date by another kind of its group. More than half of a clinician; an unlabelled kind.
    detector = Scripted(
        [DetectedSpan(0, 4, "name"), DetectedSpan(20, 24, "age"), DetectedSpan(30, 34, "date")],
        [DetectedSpan(0, 6, "name"), DetectedSpan(6, 9, "phone")],
    )
    table = detector_recall(detector, texts, replicates=50).set_index("kind")
    # Four labels, two of them found; of four spans of labelled kinds three are right.
    labelled = table.loc[["name", "clinician", "date", "age", "all"], ["labelled", "found", "detected", "right"]]
    assert labelled.to_numpy().tolist() == [[1, 0, 2, 2], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1], [4, 2, 5, 3]]
    assert table.loc["all", ["recall", "precision", "recall_low", "recall_high"]].tolist() == [
        0.5,
        0.75,
        None,
        None,
    ]
    assert table.loc["phone", "reason"] == "no text has a label of this kind"
    assert table.loc[["phone"], "precision"].isna().all()


def test_invented_notes_label_what_they_hold() -> None:
    notes = invented_notes(40, seed=3)
    assert notes == invented_notes(40, seed=3) != invented_notes(40, seed=4)
    labelled = {span.kind for note in notes for span in note.spans}
    assert labelled >= {"name", "clinician", "date", "age", "hospital", "location", "phone", "ssn", "record_number"}
    for note in notes:
        assert all(note.text[span.start : span.end].strip() for span in note.spans)
        assert "{" not in note.text


def test_patterns_miss_places_without_a_cue_and_little_else_on_invented_notes() -> None:
    """No list holds the names of invented people: context alone finds them."""
    table = detector_recall(Patterns(), invented_notes(60), replicates=100).set_index("kind")
    assert table.loc["location", "recall_low"] < table.loc["location", "recall"] < 0.9
    assert (table.loc[["name", "clinician", "date", "age", "ssn", "email", "hospital"], "recall"] > 0.95).all()
    assert table.loc["all", "precision"] > 0.95


def test_labels_of_records_and_of_files(tmp_path: Path) -> None:
    record = Record("r", "Ada Vane came. ADA VANE left.", {}, (Identifier("name", "Ada Vane"),))
    spans = (DetectedSpan(0, 8, "name"), DetectedSpan(15, 23, "name"))
    assert label_records([record], {"r": "ada"}) == [LabelledText("ada", record.text, spans)]
    path = tmp_path / "notes.jsonl"
    rows: list[Any] = [{"text": "Ada, 61", "subject": "a", "spans": [{"start": 0, "end": 3, "kind": "name"}]}]
    path.write_text(json.dumps(rows[0]))
    assert read_labelled(path) == [LabelledText("a", "Ada, 61", (DetectedSpan(0, 3, "name"),))]
    rows += [{"text": "x", "spans": [{"start": 0, "end": 9, "kind": "name"}]}, {"spans": []}]
    rows += [{"text": "x", "spans": [{"start": 0, "end": 1, "kind": "nane"}]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(SourceError, match=r"(?s)jsonl:2: .*0 to 9.*jsonl:3: has no text.*Did you mean 'name'"):
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
        label2id={span: place for place, span in enumerate(LABELS)},
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
    tagger: Any = make_detector(f"tagger:{tagged}")
    assert tagger.ignored == ("B-MISC",)
    text = "ada vane came on may 4 xray"
    longer = " ".join(["came on"] * 30 + ["ada vane"] + ["came on"] * 30)
    spans, none, (window,), single = tagger.find([text, "came", longer, "ada"])
    assert [(span.kind, text[span.start : span.end]) for span in spans] == [("name", "ada vane"), ("date", "may 4")]
    assert all(0.5 < span.score <= 1 for span in spans)
    assert none == []
    # Texts longer than the model's window are read in pieces.
    assert longer[window.start : window.end] == "ada vane"
    assert [span[:3] for span in single] == [(0, 3, "name")]


def test_presidio_takes_people_and_places_from_a_pipeline_that_is_named(tmp_path: Path) -> None:
    pytest.importorskip("presidio_analyzer", reason="the extra `identifiers` is not installed")
    spacy = pytest.importorskip("spacy")
    pipeline = spacy.blank("en")
    rows = [("PERSON", "Zdenka Quillstane"), ("GPE", "Lornvale"), ("DATE", "two weeks")]
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": label, "pattern": text} for label, text in rows])
    pipeline.meta["name"] = "ruled"
    pipeline.to_disk(tmp_path / "ruled")
    detector: Any = make_detector(f"presidio:{tmp_path / 'ruled'}")
    text = "We called on Zdenka Quillstane, Lornvale, for two weeks."
    (spans,) = detector.find([text])
    assert [(span.kind, text[span.start : span.end]) for span in spans] == [
        ("name", "Zdenka Quillstane"),
        ("location", "Lornvale"),
    ]
    assert detector.model.startswith("ruled-")
    assert "ruled" in detector.version
    with pytest.raises(InputError, match="neither a spaCy pipeline nor a folder"):
        make_detector("presidio:nowhere")


def test_presidio_takes_a_token_classification_model_as_well(tagged: Path) -> None:
    pytest.importorskip("presidio_analyzer", reason="the extra `identifiers` is not installed")
    (spans,) = make_detector(f"presidio:{tagged}").find(["ada vane came on may 4"])
    assert [span[:3] for span in spans] == [(0, 8, "name"), (17, 22, "date")]


class Named(Scripted):
    """A scripted detector with a name of its own."""

    def __init__(self, name: str, *spans: list[DetectedSpan]) -> None:
        super().__init__(*spans)
        self.name, self.version = name, f"{name}-1"  # type: ignore[misc]


def test_several_detectors_are_one_with_a_span_for_what_overlaps() -> None:
    first = Named("a", [DetectedSpan(0, 3, "name", 0.8), DetectedSpan(20, 24, "date")])
    second = Named("b", [DetectedSpan(0, 8, "clinician", 0.9), DetectedSpan(30, 33, "age")])
    united = UnitedDetectors([first, second, first])
    assert (united.name, united.version) == ("a+b+a 2", "a-1+b-1+a-1")
    assert united.find(["x" * 40]) == [
        [
            DetectedSpan(0, 8, "clinician", 0.9, ("b", "a", "a 2")),
            DetectedSpan(20, 24, "date", 1.0, ("a", "a 2")),
            DetectedSpan(30, 33, "age", 1.0, ("b",)),
        ]
    ]
    labels = (DetectedSpan(0, 8, "name"), DetectedSpan(20, 24, "date"), DetectedSpan(35, 39, "phone"))
    overlap = detector_overlap(UnitedDetectors([first, second]), [LabelledText("s", "x" * 40, labels)])
    # Three of eight characters are less than half of the name.
    assert overlap[["found_by", "labelled", "names", "dates_ages", "other"]].to_numpy().tolist() == [
        ["b", 1, 1, 0, 0],
        ["a", 1, 0, 1, 0],
        ["none", 1, 0, 0, 1],
    ]
    assert overlap["share"].tolist() == [pytest.approx(1 / 3)] * 3


def test_a_cached_detector_reads_each_text_once() -> None:
    read: list[str] = []

    class Reader:
        name, version = "reader", "1"

        def find(self, texts: Sequence[str]) -> list[list[DetectedSpan]]:
            read.extend(texts)
            return [[DetectedSpan(0, len(text), "name")] for text in texts]

    detector = cached(UnitedDetectors([Reader(), Patterns()]))
    assert detector.name == "reader+patterns"
    for _ in range(2):
        assert [[span.end for span in spans] for spans in detector.find(["ada", "bo", "ada"])] == [[3], [2], [3]]
    assert read == ["ada", "bo"]
    assert cached(Reader()).name == "reader"


def test_a_list_of_detectors_is_made_in_its_order(tagged: Path) -> None:
    detector: Any = make_detector(f"patterns, tagger:{tagged}, patterns")
    assert list(detector.parts) == ["patterns", "tagger"]
    assert make_detectors(()) is None
    assert list(parts_of(Patterns())) == ["patterns"]
    text = "ada vane came on June 3rd to Dr. Orlquill"
    (spans,) = detector.find([text])
    assert [(text[span.start : span.end], span.detectors) for span in spans] == [
        ("ada vane", ("tagger",)),
        ("June 3rd", ("patterns",)),
        ("Orlquill", ("patterns",)),
    ]


def test_gliner_reads_long_texts_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in place of GLiNER's that labels every ``Ada``, with GLiNER's arguments and answers."""
    windows: list[str] = []

    class Model:
        @classmethod
        def from_pretrained(cls, folder: str, *, local_files_only: bool, map_location: str) -> Model:
            assert local_files_only
            return cls()

        def eval(self) -> Model:
            return self

        def inference(self, texts: list[str], labels: list[str], *, threshold: float, batch_size: int) -> list[Any]:
            windows.extend(texts)
            return [
                [
                    {"start": match.start(), "end": match.end(), "label": labels[0], "score": 0.7, "text": "Ada"}
                    for match in re.finditer("Ada", text)
                ]
                for text in texts
            ]

    (tmp_path / "model.safetensors").write_bytes(b"weights")
    monkeypatch.setitem(__import__("sys").modules, "gliner", SimpleNamespace(GLiNER=Model))
    text = " ".join(["came"] * 185 + ["Ada"] + ["left"] * 200 + ["Ada"])
    spans, none = make_detector(f"gliner:{tmp_path}").find([text, ""])
    assert [text[span.start : span.end] for span in spans] == ["Ada", "Ada"]
    assert {(span.kind, span.score) for span in spans} == {("name", 0.7)}
    assert none == []
    assert [len(window.split()) for window in windows] == [200, 200, 47]
    monkeypatch.setitem(__import__("sys").modules, "gliner", None)
    with pytest.raises(InputError, match="pip install gliner"):
        make_detector(f"gliner:{tmp_path}")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors"):
        make_detector(f"gliner:{tmp_path}")
