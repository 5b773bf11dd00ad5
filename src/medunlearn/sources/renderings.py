"""Plain text of a document in one of its renderings: plain, HTML, a C-CDA document or RTF.

What a content is, is read from its first bytes; servers declare types of their own (``ASCII Text``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from xml.etree import ElementTree

from medunlearn.sources.text_encodings import decode_text

_HIDDEN = frozenset(("script", "style", "head"))
_LINES = re.compile(
    "address|article|blockquote|br|caption|d[dlt]|div|footer|h[1-6r]|header|item|li|list|[ou]l|p|paragraph|pre|"
    "section|table|tbody|text|title|tr"
)
_CELLS = frozenset(("td", "th"))
_BINARY: Mapping[bytes, str] = {
    b"%PDF": "PDF",
    b"PK\3\4": "a packed file",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"II*\0": "an image",
    b"MM\0*": "an image",
    b"\xd0\xcf\x11\xe0": "an old Office file",
}
_MARKUP = re.compile(
    r"\s*(?:<!doctype html|<\?xml[^>]*>\s*<html|<(?:html|body|div|p|table|span|pre|h\d|br)\b)", re.I
)
_CHARSET = re.compile(r"charset=\"?([\w.:-]+)", re.I)
_UNREAD = re.compile(r"(?:image|audio|video|multipart)/|application/(?:pdf|dicom|json|fhir)", re.I)


@dataclass(frozen=True)
class DocumentText:
    """One rendering of a document.

    Attributes:
        rank: 0 for plain text, higher for what loses more when it is made plain.
    """

    rank: int
    text: str


def best_rendering(renderings: Iterable[DocumentText]) -> str:
    """The text that loses least, of renderings of one document; empty if none has text."""
    full = [rendering for rendering in renderings if rendering.text.strip()]
    return min(full, key=lambda rendering: rendering.rank).text if full else ""


def read_rendering(content: bytes, declared: str = "") -> DocumentText:
    """A rendering from its bytes.

    Args:
        declared: its content type, perhaps with a charset.

    Raises:
        ValueError: why it is not read, as an end of "a document ...".
    """
    kind = next((kind for mark, kind in _BINARY.items() if content.startswith(mark)), None)
    if kind or _UNREAD.match(declared):
        raise ValueError(f"in a form that is not read ({kind or declared.split(';')[0].strip().lower()})")
    if content.lstrip().startswith(b"{\\rtf"):
        return DocumentText(3, _plain_rtf(content.decode("latin-1")))
    charset = _CHARSET.search(declared)
    try:
        text = content.decode(charset[1]) if charset else decode_text(content)
    except (UnicodeDecodeError, LookupError):
        raise ValueError("that is not text in its character set") from None
    if "ClinicalDocument" in text[:5000] and text.lstrip().startswith("<"):
        return DocumentText(2, narrative(parse_xml(content)))
    if "html" in declared.lower() or _MARKUP.match(text):
        return DocumentText(1, plain_html(text))
    return DocumentText(0, text.strip())


class _PlainText(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden += tag in _HIDDEN
        self._divide(tag)

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in _HIDDEN and self.hidden > 0
        self._divide(tag)

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)

    def _divide(self, tag: str) -> None:
        self.parts.append("\n" if _LINES.fullmatch(tag) else " " if tag in _CELLS else "")


def plain_html(text: str) -> str:
    """Text of HTML, a line a block, without empty lines."""
    parser = _PlainText()
    parser.feed(text)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.parts).splitlines())
    return "\n".join(filter(None, lines))


def _plain_rtf(text: str) -> str:
    try:
        from striprtf.striprtf import rtf_to_text
    except ImportError:
        raise ValueError("in RTF, which striprtf reads: pip install 'medunlearn[rtf]'") from None
    return str(rtf_to_text(text, errors="ignore")).strip()


def parse_xml(content: bytes) -> ElementTree.Element:
    """The root of an XML file; names of elements lose their namespaces.

    Raises:
        ValueError: not XML, or with entities of its own, which can grow without bound.
    """
    if b"<!ENTITY" in content:
        raise ValueError("that defines XML entities, which are not read")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise ValueError("that is no whole XML") from None
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]
    return root


def narrative(document: ElementTree.Element) -> str:
    """Text of a C-CDA document: titles and narratives of its sections, in their order."""
    parts = []
    for section in document.iter("section"):
        for name in ("title", "text"):
            element = section.find(name)
            if element is not None:
                parts.append(plain_html(ElementTree.tostring(element, encoding="unicode")))
    return "\n".join(filter(None, parts))
