"""Images of a selection: phantoms are drawn, files are pointed to or copied, and views are made.

That files can be read was seen when studies were chosen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medunlearn.config import MedforgetSettings
from medunlearn.data.image_files import ImageFile
from medunlearn.data.images import Pixels, augmented, png, read_image, within
from medunlearn.data.storage import sha256_of, write_atomically, writer
from medunlearn.papers.medforget.build import Illustrated
from medunlearn.papers.medforget.selection import ChosenStudy, Selection, stream
from medunlearn.progress import progress
from medunlearn.sources.vqa import GeneralQuestion
from medunlearn.synthetic.phantom import radiograph

FOLDER = "images"
LARGEST = 1024
"""Pixels of an augmented image's longer side at most, where ``max_pixels`` says nothing."""


@dataclass(frozen=True)
class Gallery:
    """Writes and lists the images of a benchmark in its folder ``out``."""

    out: Path
    settings: MedforgetSettings
    images: Illustrated = field(default_factory=Illustrated)

    def illustrate(
        self, selection: Selection, general: Sequence[GeneralQuestion], *, quiet: bool = True
    ) -> Illustrated:
        """Images of all studies and of the general set.

        Raises:
            SourceError: an image cannot be read; names its file.
            StorageError: the disk refused.
        """
        wanted, views = not self.settings.text_only, self.settings.views == "turned"
        with progress("images", len(selection.studies) + len(general), quiet=quiet) as advance:
            for study in selection.studies:
                if study.study.shown and wanted:
                    self.images.shown[study.node] = self._original(study)
                    if self.settings.rephrase != "none" and views:
                        self.images.turned[study.node] = self._other_view(study)
                    if views:
                        numbers = range(1, self.settings.paraphrases + 1)
                        self.images.trained[study.node] = [self._other_view(study, number) for number in numbers]
                advance()
            for number, row in enumerate(general, start=1):
                if row.image is not None and wanted:
                    self.images.general[row.row] = self._file(row.image, f"general-{number:05d}")
                advance()
        return self.images

    def _original(self, study: ChosenStudy) -> str:
        body, path = study.study.body, study.study.image
        if body is not None:
            pixels = radiograph(body, 0, self.settings.image_size)
            return self._write(study.node, study.node, "drawn", 0, pixels, study.study.position)
        assert path is not None
        return self._file(path, study.node, study.study.position)

    def _other_view(self, study: ChosenStudy, trained: int = 0) -> str:
        """The view of rephrased questions, or the so-many-th that is ``trained`` on, which is another."""
        rng = stream(self.settings, "view", study.node)
        body, path, name = study.study.body, study.study.image, f"{study.node}-turned"
        if trained:
            name = f"{study.node}-trained-{trained}"
        if body is not None:
            angles = self.settings.angles
            place = int(rng.integers(len(angles)))
            if trained >= len(angles):
                return self.images.shown[study.node]
            angle = angles[(place + trained) % len(angles)]
            pixels = radiograph(body, angle, self.settings.image_size)
            return self._write(name, study.node, "turned", angle, pixels, "")
        assert path is not None
        if trained:
            rng = stream(self.settings, "view", study.node, str(trained))
        pixels = read_image(path)
        if self.settings.max_pixels is not None:
            pixels = within(pixels, self.settings.max_pixels)
        elif max(pixels.shape) > LARGEST:
            pixels = read_image(path, LARGEST)
        return self._write(name, study.node, "augmented", None, augmented(pixels, rng), study.study.position)

    def _file(self, path: Path, node: str, position: str = "") -> str:
        """A user's own file: copied, made smaller, or pointed to."""
        if (most := self.settings.max_pixels) is not None:
            pixels = read_image(path)
            if pixels.shape[0] * pixels.shape[1] > most:
                return self._write(node, node, "original", None, within(pixels, most), position)
        if self.settings.copy_images:
            return self._write(node, node, "original", None, read_image(path), position)
        relative = Path(os.path.relpath(path.resolve(), self.out.resolve())).as_posix()
        self.images.files.append(ImageFile(relative, node, "original", position, None, sha256_of(path)))
        return relative

    def _write(self, name: str, node: str, view: str, angle: int | None, pixels: Pixels, position: str) -> str:
        relative = f"{FOLDER}/{name}.png"
        path = self.out / relative
        write_atomically(path, writer(png(pixels)))
        self.images.files.append(ImageFile(relative, node, view, position, angle, sha256_of(path)))
        return relative
