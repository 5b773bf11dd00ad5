import pytest

from medunlearn.synthetic import Hospital, invent_hospital


@pytest.fixture(scope="package")
def hospital() -> Hospital:
    """Big enough for every disease, template and phrasing to occur."""
    return invent_hospital(400, seed=3, institutions=5, studies=2)
