"""Inputs or outputs of selected modules at the tokens of samples, streamed pass by pass and never stored.

A module's values are passed to a function during the forward pass, so that only one module's values for one batch
are in memory. Text shared by samples is run once; its tokens count for each of them.

Notation: S samples in a pass, K spans (stretches of tokens that belong to the same samples), P tokens, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from medunlearn.models.batches import Batch
from medunlearn.models.batching import Batching
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import TokenSequence, families_by_length
from medunlearn.models.vision.pictures import FIRST, PLACES

Result = TypeVar("Result")
Modality = Literal["text", "vision"]


@dataclass(frozen=True)
class Site:
    """A module whose inputs or outputs are read; the name is unique among the sites of a pass."""

    name: str
    module: nn.Module
    side: Literal["in", "out"]


@dataclass(frozen=True)
class Stretch:
    """Consecutive tokens of a pass that belong to the same samples, from a text or an image.

    Attributes:
        row, start, stop: their position in a module's values, [rows, columns, W].
        samples: index of each sample that they belong to -> weight of one of these tokens (1, or less if the text
            occurs several times in the pass).
    """

    row: int
    start: int
    stop: int
    samples: Mapping[int, float]
    modality: Modality = "text"


@dataclass(frozen=True)
class Tokens:
    """The tokens of a pass and their samples."""

    stretches: tuple[Stretch, ...]
    device: torch.device

    @cached_property
    def samples(self) -> tuple[int, ...]:
        """Indices of the samples in the pass, ascending, [S]."""
        return tuple(sorted({sample for stretch in self.stretches for sample in stretch.samples}))

    @cached_property
    def weights(self) -> Tensor:
        """Weight of each token: the number of its samples, [P]."""
        return self._shares.sum(dim=0)[self._span]

    def of(self, values: Tensor) -> Tensor:
        """Select a module's values, [rows, columns, W], at the tokens, [P, W], in fp32."""
        return torch.cat([values[stretch.row, stretch.start : stretch.stop] for stretch in self.stretches]).float()

    def means(self, values: Tensor, modality: Modality | None = None) -> Tensor:
        """Mean over each sample's tokens, of one modality or of all: [P, W] -> [S, W]; NaN without tokens."""
        shares = self._shares
        if modality is not None:
            matches = [stretch.modality == modality for stretch in self.stretches]
            shares = shares * torch.tensor(matches, device=self.device)
        sums = values.new_zeros(len(self.stretches), values.shape[1]).index_add(0, self._span, values)
        return (shares @ sums) / (shares @ self._lengths)[:, None]

    @cached_property
    def _lengths(self) -> Tensor:
        return torch.tensor([float(stretch.stop - stretch.start) for stretch in self.stretches], device=self.device)

    @cached_property
    def _span(self) -> Tensor:
        """The stretch index of each token, [P]."""
        return torch.arange(len(self.stretches), device=self.device).repeat_interleave(self._lengths.long())

    @cached_property
    def _shares(self) -> Tensor:
        """Weight of a token of each stretch in each sample, [S, K]."""
        rows = [[stretch.samples.get(sample, 0.0) for stretch in self.stretches] for sample in self.samples]
        return torch.tensor(rows, device=self.device)


See = Callable[[str, Tensor, Tokens], None]
"""Is given a site's name, its values at the tokens, [P, W] in fp32, and whose tokens they are."""


class SequenceReader:
    """Reads token sequences in the cheapest batches, up to the last layer that is needed."""

    def __init__(
        self,
        language_model: LanguageModel,
        sequences: Sequence[TokenSequence],
        last: int,
        bare: Sequence[TokenSequence] | None = None,
    ) -> None:
        """Prepare a reader.

        Args:
        """
        self.language_model, self.sequences, self.last, self.bare = language_model, sequences, last, bare

    @property
    def images(self) -> bool:
        """True if samples have images and the model uses them."""
        return self.bare is not None

    def order(self) -> list[list[int]]:
        """Indices of all samples in an order that is cheap to read; samples with shared text are adjacent."""
        return list(reversed(families_by_length(self.sequences)))

    def read(self, places: Sequence[int], sites: Sequence[Site], see: See, *, images: bool = True) -> None:
        """One pass over the samples at these indices, with their images or with text only."""
        model, device = self.language_model.model, self.language_model.device
        sequences = self.sequences if images or self.bare is None else self.bare
        members = [sequences[place] for place in places]
        batch = make_batch(model, members, self.language_model.tokenizer.pad_token_id, device)
        tokens = Tokens(tuple(_stretches(batch, places, members)), device)
        with watched(sites, lambda name, values: see(name, tokens.of(values), tokens)):
            decoder_of(model).trunk(batch, self.last + 1)

    def pictured(self, places: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """Image number -> indices of the samples with this image."""
        by_image: dict[int, list[int]] = {}
        for place in places:
            for number in {(token - FIRST) // PLACES for token in self.sequences[place].ids if token >= FIRST}:
                by_image.setdefault(number, []).append(place)
        return {number: tuple(members) for number, members in by_image.items()}

    def encode(self, number: int) -> None:
        """Run the vision tower and the projector on one image."""
        pictures = self.language_model.pictures
        if pictures is None:
            raise TypeError("A text model has no images.")
        # Past what is kept of frozen towers, so that the modules run.
        pictures.family.features(self.language_model.model, [pictures.of(number)])


def _stretches(batch: Batch, places: Sequence[int], sequences: Sequence[TokenSequence]) -> Iterator[Stretch]:
    """Stretches of a batch. A shared text that occurs several times counts with its mean."""
    owners: dict[str, list[int]] = {}
    for place, sequence in zip(places, sequences, strict=True):
        for name in (sequence.key, *([sequence.shared_name] if sequence.shared else [])):
            owners.setdefault(name, []).append(place)
    times: dict[str, int] = {}
    for span in batch.spans:
        times[span.name] = times.get(span.name, 0) + 1
    ids = batch.input_ids.tolist()
    for span in batch.spans:
        counts = dict.fromkeys(owners[span.name], 1 / times[span.name])
        columns = range(span.start, span.stop)
        for pictured, run in groupby(columns, lambda column, row=ids[span.row]: row[column] >= FIRST):  # type: ignore[misc]
            inside = list(run)
            yield Stretch(span.row, inside[0], inside[-1] + 1, counts, "vision" if pictured else "text")


@contextmanager
def watched(sites: Sequence[Site], see: Callable[[str, Tensor], None]) -> Iterator[None]:
    """Context in which ``see`` is called with a site's name and values whenever its module runs."""
    with ExitStack() as until:
        for site in sites:
            until.callback(_hook(site, see).remove)
        yield


def _hook(site: Site, see: Callable[[str, Tensor], None]) -> Any:
    if site.side == "in":
        return site.module.register_forward_pre_hook(lambda module, inputs: see(site.name, inputs[0].detach()))
    return site.module.register_forward_hook(lambda module, inputs, output: see(site.name, output.detach()))


@dataclass(frozen=True)
class Look:
    """Some samples of a side, which a method may read repeatedly; ``places`` are their indices there, ascending."""

    places: tuple[int, ...]
    reader: SequenceReader

    def see(
        self, sites: Sequence[Site], reduce: Callable[[Tensor, Tokens], Result], *, images: bool = True
    ) -> dict[str, Result]:
        """Reduce each site's values in one pass over the samples.

        Args:
            reduce: function of the values at the tokens, [P, W] in fp32; called during the pass, so that only one
                site's values are in memory at a time.
            images: include the samples' images; False: text only.
        """
        results: dict[str, Result] = {}

        def see(name: str, values: Tensor, tokens: Tokens) -> None:
            results[name] = reduce(values, tokens)

        with torch.no_grad():
            self.reader.read(self.places, sites, see, images=images)
        return results

    def see_images(
        self, sites: Sequence[Site], reduce: Callable[[Tensor, Tokens], Result]
    ) -> Iterator[tuple[dict[str, Result], tuple[int, ...]]]:
        """Reduce each site's values during the encoding of an image, for each image of the samples.

        Sites are in the projector between vision tower and language model; all tokens belong to the image and to
        all its samples. Yields the results, and the indices of the image's samples.
        """
        for number, places in self.reader.pictured(self.places).items():
            results: dict[str, Result] = {}

            def see(name: str, values: Tensor, places: tuple[int, ...] = places) -> None:
                flat = values.reshape(1, -1, values.shape[-1])
                stretch = Stretch(0, 0, flat.shape[1], dict.fromkeys(places, 1.0), "vision")
                tokens = Tokens((stretch,), values.device)
                results[name] = reduce(tokens.of(flat), tokens)  # noqa: B023

            with torch.no_grad(), watched(sites, see):
                self.reader.encode(number)
            yield results, places


@dataclass(frozen=True)
class Side:
    """Samples of the forget or the retain set, with their hierarchy nodes (level -> node).

    A pass has at most ``batch_size`` samples, fewer if memory runs out, which changes numbers only by rounding.
    """

    reader: SequenceReader
    groups: tuple[Mapping[str, str], ...]
    batch_size: int = 32
    advance: Callable[[int], None] = lambda count: None

    @property
    def images(self) -> bool:
        return self.reader.images

    def each(self, work: Callable[[Look], Result]) -> Iterator[Result]:
        """Results of ``work`` on each batch; every sample is in one batch.

        ``work`` must have no side effects: if memory runs out, it is called again with fewer samples.

        Raises:
            MedunlearnError: memory runs out with a single sample.
        """
        order = self.reader.order()
        family = {place: number for number, places in enumerate(order) for place in places}

        def counted_result(members: list[int]) -> tuple[int, Result]:
            return len(members), work(Look(tuple(sorted(members)), self.reader))

        places = [place for members in order for place in members]
        for count, result in Batching(self.batch_size).over(places, counted_result, family.__getitem__):
            yield result
            self.advance(count)
