"""A hundred forms in which declared identifiers are written, and texts that hold none of them."""

from __future__ import annotations

import pytest

from medunlearn.audit.identifiers.findings import find_known
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.known import KnownIdentifiers
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.data.records import Identifier, Record

FORMS = {
    ("name", "Shanelle McAllister"): "MCALLISTER SHANELLE|McAllister, Shanelle|S. McAllister|Ms. McAllister|"
    "Shanelle Mc Allister|McAllister S",
    ("name", "Ada Louise O'Brien-Vane"): "OBRIEN-VANE, ADA|Mrs. O'Brien-Vane|Ada O’Brien-Vane|ada l. o'brien vane|"
    "O'Brien-Vane, Ada Louise|A. L. O'Brien-Vane|Ada OBrienVane|Mrs Obrien Vane|O'BRIEN-VANE AL",
    ("name", "Cy van der Berg"): "Van Der Berg, Cy|Berg, Cy van der|CY VANDERBERG|Mr. van der Berg|C. van der Berg|"
    "Cy Berg|Mr Vanderberg",
    (
        "name",
        "Omar al-Rashid",
    ): "Al Rashid, Omar|Mr. al-Rashid|Omar Alrashid|AL-RASHID OMAR|O. al-Rashid|Omar Rashid",
    ("name", "Dr. Henrik J. Dahl Jr., MD"): "Henrik Dahl|Dahl, Henrik J.|Dr. Dahl|H. J. Dahl|DAHL HENRIK|HJ Dahl",
    ("name", "Peña-Ruiz, María"): "Maria Pena-Ruiz|MARÍA PEÑA RUIZ|Sra. Peña-Ruiz|M. Pena Ruiz",
    ("name", "Xu Li"): "Xu Li|Li, Xu|LI XU|Mrs. Li|Xu-Li",
    ("name", "Li Na"): "Li Na|Na, Li|Ms. Na",
    ("name", "李伟"): "患者李伟因发热入院|李 伟|（李伟）|李·伟",
    ("name", "山田花子"): "山田花子さんは|山田 花子",
    ("name", "김민준"): "김민준은 내원했다",
    ("name", "Олег Крымов"): "Крымов Олег|О. Крымов",
    ("name", "محمد علي"): "المريض محمد علي في",
    ("name", "अनिता शर्मा"): "अनिता शर्मा आयीं",
    ("mrn", "0048213"): "48213|MRN 0048213|48-213|00 48 213|MRN: 48213|000048213",
    ("mrn", "0004711"): "MRN 4711|record no. 4711|#4711|0004711|Patient ID: 4711",
    ("mrn", "HX-204511"): "hx204511|HX 204 511|204511|MRN HX204511",
    ("mrn", "MRN: 0093377"): "93377|0093377",
    ("phone", "+1 (299) 555-0123"): "299-555-0123|299.555.0123|2995550123|1 299 555 0123|(299)555-0123",
    ("address", "12 Inkwell Lane Apt 4, Tarnhythe, OH 44120"): "12 Inkwell Ln|Inkwell Lane|Tarnhythe|44120|"
    "12 INKWELL LANE APT 4, TARNHYTHE OH 44120|12 inkwell ln apt 4 tarnhythe oh 44120",
    ("address", "7 Quill Street, Lornvale"): "7 Quill St.|Quill Street|Lornvale",
    (
        "date",
        "2019-03-12",
    ): "20190312|12Mar2019|12-MAR-2019|March 12th, 2019|12 March 2019|the twelfth of March, 2019|"
    "March twelfth, two thousand nineteen|12.3.2019|03/12/19|2019/3/12|12 Mar 19|2019-Mar-12|12/Mar/2019|"
    "12. März 2019|12 de marzo de 2019|2019年3月12日|12.III.2019|2019-03-12T08:30|12 03 2019|Mar. 12 2019",
}
# Text without an identifier of these patients; `|` stands between two.
OTHERS = {
    ("name", "Li Na"): "Li, Na, K and Cl were normal|Li 0.8, Na 140|electrolytes: K/Li/Na|Li Na 140|li na|LiNa|"
    "Na: 139, Li: 0.7",
    ("name", "Xu Li"): "Li was started|Dr. Wu|Xu then Li|ex Xu. Li|xu li",
    ("name", "李伟"): "李。伟大|伟人李先生|李先生",
    ("name", "Cy van der Berg"): "the van der Waals force|berg|van der Bergh, Cy|Cyber van|Berg and Cy",
    ("name", "Shanelle McAllister"): "Mac Allister Hospital|S. Allister|Shanelle came|Allister Mc",
    ("name", "Omar al-Rashid"): "Rashid et al|Omar et al|al Rashid Street",
    ("name", "Ada Louise O'Brien-Vane"): "A. Vane|O'Brien came|Mrs. Vane|Louise Vane|AL 12 mm",
    ("mrn", "0004711"): "room 4711|4711 mL|1914711|MRN 47110|on 4/7/11",
    ("mrn", "0048213"): "148213|482 then 13|MRN 48214|48.213.7",
    ("phone", "+1 (299) 555-0123"): "555-0123|299-555-01234|299-555-0321 x1",
    ("address", "12 Inkwell Lane Apt 4, Tarnhythe, OH 44120"): "Inkwell|44121|OH|12 Ink Lane|Lane Apt|Tarn",
    ("date", "2019-03-12"): "March 12|2019|1920190312|March 13, 2019|12 2019|20191303|12 of 2019 patients in March",
}
CASES = [(kind, value, text) for (kind, value), texts in FORMS.items() for text in texts.split("|")]
COUNTER_CASES = [(kind, value, text) for (kind, value), texts in OTHERS.items() for text in texts.split("|")]


def matches(kind: str, value: str, text: str) -> list[str]:
    """Findings of a patient's one identifier in a response to her own probe."""
    record = Record("r", "", {}, (Identifier(kind, value),))
    response = RecordResponse("r", "r@1", "p", "greedy", 0, "", f"Note: {text}; end.")
    return [row["value"] for row in find_known([response], KnownIdentifiers([record], {"r": "p"}), {})]


def test_a_hundred_forms_are_found() -> None:
    missed = [case for case in CASES if not matches(*case)]
    assert len(CASES) >= 100
    assert not missed


def test_what_is_another_value_is_not_found() -> None:
    false = [(*case, hits) for case in COUNTER_CASES if (hits := matches(*case))]
    assert len(COUNTER_CASES) >= 40
    assert not false


@pytest.mark.parametrize("text", ["Lornvale", "Mr. Dahl", "Inkwell Lane"])
def test_what_many_share_is_looked_for_in_ones_own_responses_alone(text: str) -> None:
    values = [("name", "Henrik Dahl"), ("address", "7 Inkwell Lane, Lornvale")]
    records = [Record("a", "", {}), Record("b", "", {}, tuple(Identifier(*pair) for pair in values))]
    index = KnownIdentifiers(records)
    of_others = RecordResponse("a", "a@1", "a", "greedy", 0, "", text)
    own = of_others._replace(record_id="b", probe_id="b@1", subject="b")
    assert not [*find_known([of_others], index, {}), *find_known([of_others], index, {}, "none")]
    (row,) = find_known([own], index, {})
    assert row["owner"] == "record"
    assert not [row for row in find_known([of_others], index, {}, "all") if kinds()[row["kind"]].name == "location"]


def test_the_parts_of_an_address_are_no_whole_address() -> None:
    record = Record("r", "", {}, (Identifier("address", "7 Inkwell Lane, Lornvale"),))
    whole, part = (
        [row["key"] for row in find_known([RecordResponse("r", "r@1", "p", "greedy", 0, "", text)], index, {})]
        for index in (KnownIdentifiers([record], {"r": "p"}),)
        for text in ("at 7 Inkwell Lane, Lornvale.", "She lives in Lornvale.")
    )
    assert (whole, part) == (["7 inkwell lane lornvale"], ["lornvale"])
