"""Text burnt into a drawn radiograph: time, position and exposure, as film labels hold them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# A letter is five rows of three dots, the left one worth 4.
_LETTERS = {
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717", "6": "74757",
    "7": "71122", "8": "75757", "9": "75717", ":": "02020", ".": "00002", " ": "00000",
    "A": "25755", "B": "65656", "C": "34443", "D": "65556", "E": "74647", "I": "72227", "K": "55655",
    "L": "44447", "M": "57755", "N": "67555", "O": "25552", "P": "65644", "R": "65655", "S": "34216",
    "T": "72222", "U": "55557", "V": "55552",
}  # fmt: skip
_HIGH, _WIDE = 6, 4


def with_label(image: NDArray[np.uint8], lines: Sequence[str]) -> NDArray[np.uint8]:
    """An image with white letters on black in its lower left corner; a dot is a pixel for each 128 of its width.

    Raises:
        KeyError: a letter that nobody drew.
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
