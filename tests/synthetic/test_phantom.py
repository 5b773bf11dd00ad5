"""Drawn chest phantoms: findings are seen where the report says, and a turned view is another one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medunlearn.synthetic.phantom import (
    Body,
    Exposure,
    heart_width,
    invent_anatomy,
    invent_pose,
    project,
    radiograph,
)
from medunlearn.synthetic.phantom.shapes import Ellipsoid, Projection, Tube, line, thickness
from medunlearn.synthetic.studies import CHEST_WIDTH_MM, ChestFinding

SIZE = 96
CENTER = SIZE / 2


def body(*findings: ChestFinding, seed: int = 3) -> Body:
    rng = np.random.default_rng(seed)
    return Body(invent_anatomy(rng), findings, replace(invent_pose(rng), turn=0.0, shift=(0.0, 0.0)))


def weight(chest: Body, angle: float = 0.0) -> np.ndarray:
    """Change of each ray by the findings, mm of water."""
    return np.abs(project(chest, angle, SIZE) - project(replace(chest, findings=()), angle, SIZE))


def middle(change: np.ndarray) -> tuple[float, float]:
    """Column and row of the change's center of mass."""
    rows, columns = np.indices(change.shape)
    return float((columns * change).sum() / change.sum()), float((rows * change).sum() / change.sum())


SIDED = [
    ChestFinding("effusion", "right", "lower", 12),
    ChestFinding("effusion", "left", "lower", 96),
    ChestFinding("opacity", "right", "upper", 18),
    ChestFinding("opacity", "left", "middle", 84),
    ChestFinding("nodule", "right", "lower", 5),
    ChestFinding("nodule", "left", "upper", 29),
    ChestFinding("pneumothorax", "right", "upper", 6),
    ChestFinding("pneumothorax", "left", "upper", 48),
    ChestFinding("device", "left", "upper", None, "chest drain"),
    ChestFinding("device", "right", "upper", None, "chest drain"),
]


@pytest.mark.parametrize(
    "finding", SIDED, ids=lambda finding: f"{finding.kind}-{finding.laterality}-{finding.size_mm}"
)
def test_a_finding_is_seen_on_its_side(finding: ChestFinding) -> None:
    change = weight(body(finding))
    column, _ = middle(change)
    # The patient's right is on the left of the image.
    assert (column < CENTER - 5) if finding.laterality == "right" else (column > CENTER + 5)
    assert change.max() > 4


@pytest.mark.parametrize("kind", ["opacity", "nodule"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_zones_stand_above_each_other(kind: str, side: str) -> None:
    rows = [middle(weight(body(ChestFinding(kind, side, zone, 20))))[1] for zone in ("upper", "middle", "lower")]  # type: ignore[arg-type]
    assert rows[0] + 6 < rows[1] < rows[2] - 6


def test_effusions_lie_low_and_pneumothoraces_reach_the_apex() -> None:
    _, low = middle(weight(body(ChestFinding("effusion", "left", "lower", 40))))
    assert low > SIZE * 0.65
    change = weight(body(ChestFinding("pneumothorax", "left", "upper", 30)))
    apex, base = change[: SIZE // 3].sum(), change[-SIZE // 3 :].sum()
    assert apex > 2 * base


@pytest.mark.parametrize("side", ["left", "right"])
def test_fluid_climbs_along_the_wall(side: str) -> None:
    """The meniscus: its edge is lowest in the middle of the lung, and highest at the chest's side."""
    change = weight(body(ChestFinding("effusion", side, "lower", 50)))  # type: ignore[arg-type]
    half = change[:, : int(CENTER)][:, ::-1] if side == "right" else change[:, int(CENTER) :]
    # Columns by their distance from the spine: where in each is the highest pixel with half of the fluid's weight?
    edges = [int(np.argmax(half[:, at] > 0.5 * change.max())) for at in (18, 22, 26, 32, 35)]
    assert edges[-1] <= min(edges[:3]) - 4
    assert edges[1] >= edges[2] >= edges[3]


def test_a_finding_lies_where_it_lay_in_the_next_study() -> None:
    nodule = ChestFinding("nodule", "left", "middle", 24)
    first = body(nodule)
    later = replace(
        first,
        pose=replace(invent_pose(np.random.default_rng(99)), turn=0.0, shift=(0.0, 0.0), breath=first.pose.breath),
    )
    assert middle(weight(later)) == pytest.approx(middle(weight(first)), abs=0.3)


def test_the_film_says_when_and_how_it_was_taken() -> None:
    """Label and contrast: other times and exposures are other pixels, and harder rays show bones fainter."""
    usual = Exposure("ERECT", "14:32", 90, 2.5)
    others = [replace(usual, time="14:33"), replace(usual, position="PORTABLE")]
    others += [replace(usual, kilovolts=91), replace(usual, milliampere_seconds=2.6)]
    films = [radiograph(replace(body(), exposure=exposure), 0, SIZE).astype(int) for exposure in (usual, *others)]
    labels = [film[-13:, :45] for film in films]
    assert len({label.tobytes() for label in labels}) == 5
    assert {0, 255} == set(np.unique(labels[0]))
    assert np.array_equal(films[0][:-13], films[1][:-13])
    assert not np.array_equal(films[0][:-13], films[3][:-13])
    assert [replace(body(), exposure=exposure).position for exposure in (usual, others[1])] == ["PA", "AP"]
    assert body().position == ""
    soft, hard = (project(replace(body(), exposure=replace(usual, kilovolts=kv)), 0, SIZE) for kv in (70, 125))
    assert (soft - hard).max() > 5
    assert (soft - hard).min() > -1e-3


def test_a_woman_has_breasts_and_a_body_out_of_the_middle_does_not_wrap_around() -> None:
    rng = [np.random.default_rng(4) for _ in range(2)]
    man, woman = (invent_anatomy(each, woman=sex) for each, sex in zip(rng, (False, True), strict=True))
    assert (man.breast, woman.breast > 40) == (0, True)
    low = replace(body(), pose=replace(body().pose, shift=(0.0, -40.0)))
    # Above the shoulders there is the neck, and beside it air.
    assert project(low, 0, SIZE)[0, :8].max() == 0
    moved, straight = project(low, 0, SIZE), project(body(), 0, SIZE)
    down = round(40 / (400 / SIZE) * 1000) / 1000
    assert np.abs(moved[round(down) :, :] - straight[: SIZE - round(down), :]).mean() < 3


@pytest.mark.parametrize("device", ["pacemaker", "central venous line", "chest drain", "port catheter"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_every_device_is_denser_than_what_is_around_it(device: str, side: str) -> None:
    chest = body(ChestFinding("device", side, "upper", None, device))  # type: ignore[arg-type]
    change = project(chest, 0, SIZE) - project(replace(chest, findings=()), 0, SIZE)
    assert change.min() > -1e-3
    assert change.max() > 8


def test_a_device_that_nobody_drew_is_not_left_out_silently() -> None:
    with pytest.raises(ValueError, match="no drawing"):
        project(body(ChestFinding("device", "left", "upper", None, "stent")), 0, SIZE)


def shadow(chest: Body) -> float:
    """Width in mm of the soft tissue between the lungs at the heart's height, measured on the projection alone."""
    water = project(chest, 0, 200)
    row = water[int((200 - chest.heart.center[2]) / 2)]
    inside = np.flatnonzero(np.abs(np.arange(200) - 100) < 75)
    dense = row[inside] > (row[inside].max() + row[inside].min()) / 2
    return float(dense.sum()) * 2


def test_the_cardiothoracic_ratio_rises_with_cardiomegaly() -> None:
    ratios = [heart_width(body(), 0) / CHEST_WIDTH_MM]
    measured = [shadow(body())]
    for width in (170, 195, 224):
        enlarged = body(ChestFinding("cardiomegaly", "central", "lower", width))
        ratios.append(heart_width(enlarged) / CHEST_WIDTH_MM)
        measured.append(shadow(enlarged))
    assert ratios[0] < 0.5 < ratios[1] < ratios[2] < ratios[3]
    assert ratios[1:] == pytest.approx([170 / 320, 195 / 320, 224 / 320])
    assert measured == sorted(measured)
    assert measured[-1] - measured[0] > 30


@pytest.mark.parametrize("angle", [-30, -15, 15, 30])
def test_a_turned_view_differs_and_keeps_heights(angle: int) -> None:
    chest = body(ChestFinding("nodule", "left", "upper", 20))
    straight, turned = radiograph(chest, 0, SIZE).astype(int), radiograph(chest, angle, SIZE).astype(int)
    assert np.abs(straight - turned).mean() > 2
    assert middle(weight(chest))[1] == pytest.approx(middle(weight(chest, angle))[1], abs=0.5)


def test_the_same_seed_gives_the_same_bytes_and_another_patient_others() -> None:
    first, again, other = (radiograph(body(seed=seed), 15, SIZE) for seed in (3, 3, 4))
    assert first.tobytes() == again.tobytes()
    assert np.abs(first.astype(int) - other.astype(int)).mean() > 2
    assert first.dtype == np.uint8
    assert first.shape == (SIZE, SIZE)
    assert first.min() == 0 < np.median(first) < 255


def test_an_ellipsoid_weighs_its_volume_from_every_side() -> None:
    """The mass of a shape does not depend on where one looks from: 4/3 pi abc."""
    shape = Ellipsoid((20.0, -35.0, 10.0), (60.0, 30.0, 45.0))
    for angle in (0.0, 25.0, 90.0, -130.0):
        view = Projection(angle, 200)
        mass = float(shape.span(view).length().sum()) * view.pixel**2
        assert mass == pytest.approx(4 / 3 * np.pi * 60 * 30 * 45, rel=0.01)
        strip = np.zeros((200, 200), dtype=np.float32)
        shape.add_to(strip, view, 2.0)
        assert np.allclose(strip, 2 * shape.span(view).length())


def test_a_tube_weighs_its_volume_from_every_side() -> None:
    tube = Tube(line([(-60, 10, -40), (20, -50, 60)]), 4.0, 1.5)
    length = float(np.linalg.norm([80, -60, 100]))
    for angle in (0.0, 40.0, 90.0):
        view = Projection(angle, 128)
        mass = float(thickness([tube], view).sum()) * view.pixel**2
        assert mass == pytest.approx(np.pi * 16 * length * 1.5, rel=0.01)
