import re
from itertools import pairwise

from medunlearn.synthetic import Hospital, Study, invent_hospital
from medunlearn.synthetic.studies import CHEST_WIDTH_MM, MOST_FINDINGS, SECTIONS

WORDS = {
    "effusion": "pleural effusion",
    "opacity": "opacity",
    "cardiomegaly": "cardiomegaly",
    "nodule": "nodule",
    "pneumothorax": "pneumothorax",
}
DEVICES = ("pacemaker", "central venous line", "chest drain", "port catheter")


def all_studies(hospital: Hospital) -> list[Study]:
    return [study for patient in hospital.patients for study in patient.studies]


def test_studies_are_dated_in_order() -> None:
    for patient in invent_hospital(30, studies=5).patients:
        dates = [study.date for study in patient.studies]
        assert len(set(dates)) == 5
        assert dates == sorted(dates)
        assert [study.study_id for study in patient.studies] == [
            f"{patient.patient_id}-study-{number}" for number in range(1, 6)
        ]


def test_each_study_has_the_four_sections(hospital: Hospital) -> None:
    for patient in hospital.patients:
        for study in patient.studies:
            assert tuple(study.sections) == SECTIONS
            assert all(study.sections.values())
            assert study.date.isoformat() in study.sections["examination"]
            assert patient.name in study.sections["examination"]


def test_findings_and_impression_tell_what_was_drawn_and_no_more(hospital: Hospital) -> None:
    for study in all_studies(hospital):
        findings = {finding.kind: finding for finding in study.findings}
        for section in ("findings", "impression"):
            text = study.sections[section].lower()
            for kind, word in WORDS.items():
                assert (word in text) == (kind in findings), (kind, text)
            devices = [device for device in DEVICES if device in text]
            assert devices == ([findings["device"].device] if "device" in findings else [])


def test_both_sections_give_the_side_and_size_of_each_finding(hospital: Hospital) -> None:
    for study in all_studies(hospital):
        for section in ("findings", "impression"):
            sentences = re.split(r"(?<=\.)\s", study.sections[section].lower())
            for finding in study.findings:
                word = finding.device or WORDS[finding.kind]
                sentence = next(sentence for sentence in sentences if word in sentence)
                if finding.size_mm is not None:
                    assert f"{finding.size_mm} mm" in sentence
                if finding.kind != "cardiomegaly":
                    assert finding.laterality in sentence
                if finding.kind in ("opacity", "nodule"):
                    assert finding.zone in sentence


def test_findings_take_a_course() -> None:
    """A heart stays as large, nodules and implants stay where they are; fluid is in no lung that hides the rest."""
    patients = invent_hospital(150, studies=5).patients
    names: set[str] = set()
    for patient in patients:
        for earlier, later in pairwise(patient.studies):
            then, now = (
                {finding.device or finding.kind: finding for finding in study.findings}
                for study in (earlier, later)
            )
            hearts = [findings.get("cardiomegaly") for findings in (then, now)]
            if any(hearts):
                assert all(hearts)
                assert abs(hearts[0].size_mm - hearts[1].size_mm) <= 3  # type: ignore[union-attr, operator]
            for name in {"nodule", "pacemaker", "port catheter"} & then.keys():
                if len(now) < MOST_FINDINGS or name in now:
                    assert (now[name].laterality, now[name].zone) == (then[name].laterality, then[name].zone)
                    assert 0 <= (now[name].size_mm or 0) - (then[name].size_mm or 0) <= 2
            if "effusion" in now:
                side = now["effusion"].laterality
                assert all(now[kind].laterality != side for kind in ("opacity", "nodule") if kind in now)
            names |= now.keys()
    assert names >= {*WORDS, *DEVICES}
    # Something is new, or gone, in many; a course is no constant.
    changed = sum(
        {finding.kind for finding in a.findings} != {finding.kind for finding in b.findings}
        for patient in patients
        for a, b in pairwise(patient.studies)
    )
    assert changed > len(patients)


def test_structured_findings_can_be_drawn(hospital: Hospital) -> None:
    for study in all_studies(hospital):
        kinds = [finding.kind for finding in study.findings]
        assert len(set(kinds)) == len(kinds) <= 3
        for finding in study.findings:
            assert (finding.size_mm is None) == (finding.kind == "device") == bool(finding.device)
            assert (finding.laterality == "central") == (finding.kind == "cardiomegaly")
            if finding.kind == "cardiomegaly" and finding.size_mm is not None:
                assert 0.5 < finding.size_mm / CHEST_WIDTH_MM < 0.75
            elif finding.size_mm is not None:
                assert 0 < finding.size_mm < CHEST_WIDTH_MM / 3
