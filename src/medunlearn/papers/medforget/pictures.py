"""Images of a selection: phantoms are drawn, files are referenced or copied, and views are generated.

The selection of studies has already checked that files are readable.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medunlearn.data.dicom_images import Pixels
from medunlearn.data.image_files import ImageFile
from medunlearn.data.images import augment, png, read_image, within
from medunlearn.data.records import Images
from medunlearn.data.storage import sha256_of, write_bytes
from medunlearn.data.studies_of_patients import ShownView
from medunlearn.papers.medforget.build import Illustrated
from medunlearn.papers.medforget.selection import ChosenStudy, Selection, stream
from medunlearn.papers.medforget.settings import MedforgetSettings
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
        with_images, turned = not self.settings.text_only, self.settings.views == "turned"
        with progress("images", len(selection.studies) + len(general), quiet=quiet) as advance:
            for study in selection.studies:
                if with_images and (views := study.study.views(self.settings.images_per_study)):
                    own = tuple(self._original(study, place, view) for place, view in enumerate(views))
                    self.images.own[study.node] = own
                    if self.settings.rephrase != "none" and turned:
                        self.images.turned[study.node] = self._other_views(study, views)
                    if turned:
                        numbers = range(1, self.settings.paraphrases + 1)
                        trained = [self._other_views(study, views, number) for number in numbers]
                        self.images.trained[study.node] = trained
                advance()
            for number, row in enumerate(general, start=1):
                if row.image is not None and with_images:
                    self.images.general[row.row] = self._file(row.image, f"general-{number:05d}")
                advance()
        return self.images

    def _original(self, study: ChosenStudy, place: int, view: ShownView) -> str:
        name = _name(study, place)
        if view.path is not None:
            return self._file(view.path, study.node, view.position, name)
        pixels = radiograph(study.study.body, view.angle, self.settings.image_size)
        return self._write(name, study.node, "drawn", view.angle, pixels, view.position)

    def _other_views(self, study: ChosenStudy, views: Sequence[ShownView], trained: int = 0) -> Images:
        """The views of rephrased questions; with ``trained``, the different views of that training paraphrase."""
        return tuple(self._other_view(study, place, view, trained) for place, view in enumerate(views))

    def _other_view(self, study: ChosenStudy, place: int, view: ShownView, trained: int) -> str:
        name = f"{_name(study, place)}-{f'trained-{trained}' if trained else 'turned'}"
        if view.path is None:
            angles = self.settings.angles
            # All views of a study turn alike.
            first = int(stream(self.settings, "view", study.node).integers(len(angles)))
            if trained >= len(angles):
                return self.images.own[study.node][place]
            angle = view.angle + angles[(first + trained) % len(angles)]
            pixels = radiograph(study.study.body, angle, self.settings.image_size)
            return self._write(name, study.node, "turned", angle, pixels, "")
        rng = stream(self.settings, "view", _name(study, place), *([str(trained)] if trained else []))
        path, pixels = view.path, read_image(view.path)
        if self.settings.max_pixels is not None:
            pixels = within(pixels, self.settings.max_pixels)
        elif max(pixels.shape) > LARGEST:
            pixels = read_image(path, LARGEST)
        return self._write(name, study.node, "augmented", None, augment(pixels, rng), view.position)

    def _file(self, path: Path, node: str, position: str = "", name: str = "") -> str:
        """A user's own file: copied, scaled down, or referenced.

        Args:
            name: name of a copy; empty: the node's.
        """
        name = name or node
        if (most := self.settings.max_pixels) is not None:
            pixels = read_image(path)
            if pixels.shape[0] * pixels.shape[1] > most:
                return self._write(name, node, "original", None, within(pixels, most), position)
        if self.settings.copy_images:
            return self._write(name, node, "original", None, read_image(path), position)
        relative = Path(os.path.relpath(path.resolve(), self.out.resolve())).as_posix()
        self.images.files.append(ImageFile(relative, node, "original", position, None, sha256_of(path)))
        return relative

    def _write(self, name: str, node: str, view: str, angle: int | None, pixels: Pixels, position: str) -> str:
        relative = f"{FOLDER}/{name}.png"
        path = self.out / relative
        write_bytes(path, png(pixels))
        self.images.files.append(ImageFile(relative, node, view, position, angle, sha256_of(path)))
        return relative


def _name(study: ChosenStudy, place: int) -> str:
    """File name, without suffix, of a study's image by its index."""
    return f"{study.node}-view-{place + 1}" if place else study.node
