"""Images of a selection: phantoms are drawn, files are read once to see that they can be, and views are made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medunlearn.config import MedforgetSettings
from medunlearn.data.image_files import ImageFile
from medunlearn.data.images import Grey, augmented, png, read_image
from medunlearn.data.storage import sha256_of, write_atomically, writer
from medunlearn.papers.medforget.build import Illustrated
from medunlearn.papers.medforget.selection import ChosenStudy, Selection
from medunlearn.progress import progress
from medunlearn.seeds import generator
from medunlearn.sources.vqa import GeneralQuestion
from medunlearn.synthetic.phantom import radiograph

FOLDER = "images"
LARGEST = 1024
"""Pixels of an augmented image's longer side at most."""


@dataclass
class Gallery:
    """Writes and lists the images of a benchmark.

    Attributes:
        out: the benchmark's folder.
        files: what was made or pointed to so far.
    """

    out: Path
    settings: MedforgetSettings
    files: list[ImageFile] = field(default_factory=list)

    def illustrate(
        self, selection: Selection, general: Sequence[GeneralQuestion], *, quiet: bool = True
    ) -> Illustrated:
        """Images of all studies and of the general set.

        Raises:
            SourceError: an image cannot be read; names its file.
            StorageError: the disk refused.
        """
        shown: dict[str, str] = {}
        turned: dict[str, str] = {}
        other: dict[str, str] = {}
        studies = [study for patient in selection.patients for study in patient.studies]
        with progress("images", len(studies) + len(general), quiet=quiet) as advance:
            for study in studies:
                if study.study.shown and not self.settings.text_only:
                    shown[study.node] = self._original(study)
                    if self.settings.rephrase == "all" and self.settings.views == "turned":
                        turned[study.node] = self._other_view(study)
                advance()
            for number, one in enumerate(general, start=1):
                if one.image is not None and not self.settings.text_only:
                    other[one.row] = self._file(one.image, f"general-{number:05d}")
                advance()
        return Illustrated(shown, turned, other)

    def _original(self, study: ChosenStudy) -> str:
        body, path = study.study.body, study.study.image
        if body is not None:
            return self._write(study.node, study.node, "drawn", 0, radiograph(body, 0, self.settings.image_size))
        assert path is not None
        return self._file(path, study.node)

    def _other_view(self, study: ChosenStudy) -> str:
        rng = generator("medforget", self.settings.seed, "view", study.node)
        body, path, name = study.study.body, study.study.image, f"{study.node}-turned"
        if body is not None:
            angle = self.settings.angles[int(rng.integers(len(self.settings.angles)))]
            return self._write(name, study.node, "turned", angle, radiograph(body, angle, self.settings.image_size))
        assert path is not None
        grey = read_image(path)
        if max(grey.shape) > LARGEST:
            grey = read_image(path, LARGEST)
        return self._write(name, study.node, "augmented", None, augmented(grey, rng))

    def _file(self, path: Path, node: str) -> str:
        """A user's own file: read to the end, then copied or pointed to."""
        grey = read_image(path)
        if self.settings.copy_images:
            return self._write(node, node, "original", None, grey)
        relative = Path(os.path.relpath(path.resolve(), self.out.resolve())).as_posix()
        self.files.append(ImageFile(relative, node, "original", None, sha256_of(path)))
        return relative

    def _write(self, name: str, node: str, view: str, angle: int | None, grey: Grey) -> str:
        relative = f"{FOLDER}/{name}.png"
        path = self.out / relative
        write_atomically(path, writer(png(grey)))
        self.files.append(ImageFile(relative, node, view, angle, sha256_of(path)))
        return relative
