"""Render a body as an image: line integrals, Beer-Lambert law, quantum noise, film-like display and label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from medunlearn.synthetic.phantom import lesions
from medunlearn.synthetic.phantom.body import BASE, LUNG_SIDES, Body, LungSide
from medunlearn.synthetic.phantom.shapes import Extent, Image, Projection, Tube, thickness
from medunlearn.synthetic.studies import ChestFinding

WATER = 0.02
"""Attenuation of water a mm, at about 80 keV."""
LUNG_AIR = 0.75
"""Share of a lung that is air: its density is a quarter of water's."""
TRACHEA_AIR, SPINE = 0.9, 0.6
"""Densities, below and above that of water, in densities of water."""
QUANTA = 4e5
"""Photons a pixel that would arrive without a patient."""
USUAL_KV, USUAL_MAS = 100, 2.5
DARKEST, BRIGHTEST = 40.0, 280.0
"""mm of water shown as black and as white."""

# A letter is five rows of three dots, the left one worth 4.
_LETTERS = {
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717", "6": "74757",
    "7": "71122", "8": "75757", "9": "75717", ":": "02020", ".": "00002", " ": "00000",
    "A": "25755", "B": "65656", "C": "34443", "D": "65556", "E": "74647", "I": "72227", "K": "55655",
    "L": "44447", "M": "57755", "N": "67555", "O": "25552", "P": "65644", "R": "65655", "S": "34216",
    "T": "72222", "U": "55557", "V": "55552",
}  # fmt: skip
_HIGH, _WIDE = 6, 4


def project(body: Body, angle: float = 0.0, size: int = 128) -> Image:
    """Line integrals of density.

    Args:
        angle: rotation of the patient about the vertical axis in degrees; 0 is a frontal view.
        size: width and height in pixels, for 400 mm.

    Returns:
        mm of water along each ray [size, size]; rows from top to bottom; at 0 degrees the patient's right is on the
        left.
    """
    view = Projection(angle + body.pose.turn, size, body.pose.shift)
    torso = body.torso.span(view)
    water = torso.length()
    for part in body.anatomy.soft_tissue:
        way = part.span(view)
        water += way.length() - way.common(torso)
    core = body.heart.span(view)
    for part in body.anatomy.mediastinum:
        core = core.hull(part.span(view))
    for part in body.vertebrae:
        part.add_to(water, view, SPINE)
    body.trachea.add_to(water, view, -TRACHEA_AIR)
    body.stomach.add_to(water, view, -TRACHEA_AIR)
    for side in LUNG_SIDES:
        water -= _lung(body, side, core, view)
    hard = thickness([*body.anatomy.bones, *_devices(body)], view)
    if body.exposure is not None:
        # What attenuates by its calcium or metal does so the less, the harder the rays are.
        hard *= np.float32(USUAL_KV / body.exposure.kilovolts)
    water += thickness(body.anatomy.markings, view) + hard
    return water


def radiograph(body: Body, angle: float = 0.0, size: int = 128) -> NDArray[np.uint8]:
    """The detector image [size, size]: 0 is black (air), 255 white (bone, metal). Deterministic.

    The same body, angle and size give the same bytes.
    """
    water = project(body, angle, size)
    mas = USUAL_MAS if body.exposure is None else body.exposure.milliampere_seconds
    quanta = QUANTA * mas / USUAL_MAS
    photons = quanta * np.exp(-WATER * water)
    # Of what arrives, the root is chance; the seed knows the angle, since each view is an exposure of its own.
    rng = np.random.default_rng([body.pose.seed, round(angle * 1000) % 2**32, size])
    counts = np.maximum(photons + np.sqrt(photons) * rng.standard_normal(photons.shape), 1.0)
    brightness = (-np.log(counts / quanta) / WATER - DARKEST) / (BRIGHTEST - DARKEST)
    grey: NDArray[np.uint8] = np.round(np.clip(brightness, 0, 1) * 255).astype(np.uint8)
    return grey if body.exposure is None else _with_label(grey, body.exposure.lines)


def heart_width(body: Body, angle: float = 0.0) -> float:
    """Width of the heart's shadow in mm, by its shape; divided by the chest's inner width, the cardiothoracic
    ratio.
    """
    turn = np.deg2rad(angle + body.pose.turn)
    x, y, _ = body.heart.radii
    return 2 * float(np.hypot(x * np.cos(turn), y * np.sin(turn)))


def _lung(body: Body, side: LungSide, core: Extent, view: Projection) -> Image:
    """Water equivalent in mm that is missing because of a lung's air, with its findings."""
    cavity, dome = body.cavity(side).span(view), body.dome(side).span(view)
    way = np.maximum(cavity.length() - cavity.common(core) - cavity.common(dome), 0)
    collapsed = body.collapsed(side)
    air = LUNG_AIR * way
    if collapsed is not None:
        # Between lung and chest wall there is nothing but air.
        air += (1 - LUNG_AIR) * np.maximum(way - cavity.common(collapsed.span(view)), 0)
    for finding in body.findings:
        if finding.laterality == side:
            air = _without(air, body, finding, side, cavity, view)
    air_left: Image = air.astype(np.float32)
    return air_left


def _without(
    air: Image, body: Body, finding: ChestFinding, side: LungSide, cavity: Extent, view: Projection
) -> Image:
    """The remaining air in a lung with a finding."""
    match finding.kind:
        case "effusion":
            return air * (1 - _fluid(body, finding, side, view))
        case "opacity":
            filled = sum(
                (0.5 if place == 0 else 0.35) * cavity.common(part.span(view))
                for place, part in enumerate(lesions.opacity(body, finding, side))
            )
            return air - np.minimum(filled, air)
        case "nodule":
            # Denser than water, as old nodules with calcium are.
            return air - 1.8 * cavity.common(lesions.nodule(body, finding, side).span(view))
    return air


def _fluid(body: Body, finding: ChestFinding, side: LungSide, view: Projection) -> Image:
    """Share of a ray's air replaced by fluid, in [0, 1].

    The fluid has the reported depth at the lung's middle and rises along the chest wall (the meniscus): high and
    steep at the side, slightly at the heart. Above its edge it fades out: fluid before and behind the lung.
    """
    lung, outward = body.cavity(side), -1.0 if side == "right" else 1.0
    turn = np.deg2rad(view.angle)
    half = float(np.hypot(lung.radii[0] * np.cos(turn), lung.radii[1] * np.sin(turn)))
    middle = lung.center[0] * view.along[0] + lung.center[1] * view.along[1]
    aside = outward * np.sign(np.cos(turn)) * (view.columns - middle) / half
    depth = float(finding.size_mm or 0)
    climb = (24 + 0.35 * depth) * np.exp((np.minimum(aside, 1) - 1) / 0.28)
    inner = (5 + 0.1 * depth) * np.exp((-np.maximum(aside, -1) - 1) / 0.18)
    level = (BASE + depth + climb + inner)[None, :]
    above = view.rows[:, None] - level
    solid, veil = (1 / (1 + np.exp(np.clip(over / soft, -30, 30))) for over, soft in ((above, 2), (above - 12, 6)))
    shares: Image = (0.8 * solid + 0.2 * veil).astype(np.float32)
    return shares


def _devices(body: Body) -> list[Tube]:
    return [tube for finding in body.findings if finding.kind == "device" for tube in lesions.device(finding)]


def _with_label(image: NDArray[np.uint8], lines: Sequence[str]) -> NDArray[np.uint8]:
    """Burn text into the lower left corner, white on black; a dot is one pixel per 128 of the image's width.

    Raises:
        KeyError: an unsupported character.
    """
    dots = np.zeros((_HIGH * len(lines) + 1, _WIDE * max(map(len, lines)) + 1), dtype=np.uint8)
    for row, line in enumerate(lines):
        for place, letter in enumerate(line):
            for down, code in enumerate(_LETTERS[letter]):
                bits = [int(code) >> shift & 1 for shift in (2, 1, 0)]
                y, x = 1 + row * _HIGH + down, 1 + place * _WIDE
                dots[y, x : x + 3] = np.multiply(bits, 255)
    scale = max(1, image.shape[1] // 128)
    label = np.kron(dots, np.ones((scale, scale), dtype=np.uint8))[:, : image.shape[1]]
    labelled = image.copy()
    labelled[-label.shape[0] :, : label.shape[1]] = label
    return labelled
