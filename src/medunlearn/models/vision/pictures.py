"""Images as tokens: every image has unique picture tokens, so that the engine treats it like text.

A picture token is an id outside of any vocabulary: it encodes its image and its position in the image.
Sequences on one image then begin with the same tokens, so that all that is done for shared text (packing, caches,
what is kept of frozen layers) is done for images too. The embedding of a picture token is the vision tower's
feature for it, looked up by the model's embedding (:mod:`medunlearn.models.vision.seeing`).

    id = 2**62 + image * 2**16 + place        image: 46 bits of the SHA-256 of the file
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from medunlearn.data.images import read_image
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError, MedunlearnError, SourceError
from medunlearn.models.vision.family import Family, Prepared

FIRST = 1 << 62
PLACES = 1 << 16
SEVERAL = "several_images"
"""Key of a model's configuration: it was trained on several images per prompt, though its family takes one."""
_HELD = 1 << 30
"""Bytes of prepared images that are held in memory; more are prepared again when they are needed."""


class Pictures:
    """Images shown to a model, and their preprocessing; image paths are relative to ``folder``."""

    def __init__(self, family: Family, processor: Any, config: Any, tokenizer: Any, folder: Path | None) -> None:
        self.family, self.processor, self.config, self.folder = family, processor, config, folder
        self._tokenizer = tokenizer
        self._slots: dict[Path, tuple[int, ...]] = {}
        self._files: dict[int, Path] = {}
        self._grids: dict[int, tuple[int, int] | None] = {}
        self._prepared: dict[int, Prepared] = {}
        self._bytes = 0

    @property
    def marker(self) -> str:
        return self.family.marker

    @property
    def several(self) -> bool:
        """True if a prompt may hold several images, by the family or by :data:`SEVERAL`."""
        return self.family.several or bool(getattr(self.config, SEVERAL, False))

    def tokens(self, images: Sequence[str], record_id: str) -> tuple[int, ...]:
        """Placeholder tokens of a record's images in a prompt, image by image.

        Raises:
            InputError: there is no folder, an image cannot be read, or there are more images than the model takes;
                names file and record.
        """
        if len(images) > 1 and not self.several:
            raise InputError(
                f"Record {record_id!r} shows {len(images)} images, and {self.family.title} takes one. Build with "
                "--images-per-study 1, or give a model that takes several (Qwen2.5-VL, Idefics3, SmolVLM). Where "
                f'this one was trained on several, say so in its config.json: "{SEVERAL}": true.'
            )
        return tuple(token for image in images for token in self._tokens(image, record_id))

    def _tokens(self, image: str, record_id: str) -> tuple[int, ...]:
        if self.folder is None and not Path(image).is_absolute():
            raise InputError(
                f"Record {record_id!r} has an image, {image}, and the benchmark has no folder. Save it first: "
                "build with --out, or benchmark.save(folder) beside its images."
            )
        path = Path(image) if self.folder is None else self.folder / image
        if path not in self._slots:
            self._slots[path] = self._enter(path, record_id)
        return self._slots[path]

    def of(self, number: int) -> Prepared:
        """An image by the number in its tokens.

        Raises:
            MedunlearnError: the tokens belong to another model's pictures.
        """
        if number in self._prepared:
            return self._prepared[number]
        if number not in self._files:
            raise MedunlearnError(
                "A model received picture tokens of another model. Build each model's sequences with its own "
                "pictures (question_sequence(..., pictures=language_model.pictures))."
            )
        prepared = self._read(self._files[number])
        if self._bytes + prepared.nbytes <= _HELD:
            self._prepared[number] = prepared
            self._bytes += prepared.nbytes
        return prepared

    def read_tokens_of(self, other: Pictures) -> None:
        """Adopt the images of another model's picture tokens, to run its sequences with this model.

        Raises:
            InputError: the two prepare images differently.
        """
        if self.family is not other.family or self.processor.to_dict() != other.processor.to_dict():
            raise InputError(
                "The two models prepare images differently, so neither can read the other's sequences."
            )
        self._files, self._grids = other._files, other._grids

    def grid(self, number: int) -> tuple[int, int] | None:
        """Rows and columns of an image's tokens, for families with such positions."""
        return self._grids[number]

    def blank(self) -> Prepared:
        """A blank image for probing."""
        return self.family.prepare(self.processor, self.config, Image.new("RGB", (64, 64)))

    def _enter(self, path: Path, record_id: str) -> tuple[int, ...]:
        try:
            number = int(sha256_of(path)[:16], 16) >> 18 if path.is_file() else 0
            first_path = self._files.setdefault(number, path)
            prepared = self.of(number) if first_path == path else self._read(path)
        except SourceError as error:
            raise InputError(f"Record {record_id!r}: {error}") from error
        if prepared.count >= PLACES:
            raise MedunlearnError(f"The image {path} takes {prepared.count} tokens; {PLACES - 1} are the most.")
        self._grids[number] = prepared.grid
        return tuple(self._spelled(prepared.slot, number))

    def _read(self, path: Path) -> Prepared:
        image = Image.fromarray(read_image(path)).convert("RGB")
        return self.family.prepare(self.processor, self.config, image)

    def _spelled(self, slot: Sequence[str | int], number: int) -> list[int]:
        ids: list[int] = []
        place = 0
        for piece in slot:
            if isinstance(piece, str):
                ids += self._tokenizer(piece, add_special_tokens=False)["input_ids"]
            else:
                ids += [FIRST + number * PLACES + place + step for step in range(piece)]
                place += piece
        return ids
