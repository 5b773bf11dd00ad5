"""Hostile words, files and folders for every verb, drawn from a seed."""

from __future__ import annotations

import json
import os
import random
import shlex
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hostile_world import BASES

from medunlearn.cli.command import Generated
from medunlearn.cli.verbs import verbs
from medunlearn.config.fields import Flag

Prepare = Callable[[], None]
"""Makes files in the working folder."""

NO_NUMBERS = (
    "",
    " ",
    "x",
    "NaN",
    ".nan",
    "[1",
    "{}",
    "null",
    "~",
    "true",
    "1_0x",
    "2014-05-03",
    "--",
    "&a [*a]",
    "é",
)
NUMBERS = ("-1", "0", "-0.0", "1e400", ".inf", "-.inf", "9" * 30, "1e308", "-1e-320", "1.5", "0x10", "1e9", "010")
TEXTS = (
    *(
        "",
        " ",
        "-",
        "null",
        "true",
        "0",
        ".",
        "..",
        "../../outside",
        "/",
        "~root",
        "$(touch HACKED)",
        "`id`",
        "%s%n",
    ),
    *(
        "=cmd|' /C calc'!A0",
        "[red]x[/red]",
        "[/]",
        "\x1b[2J\x1b]0;t\x07",
        "\u202egpj.exe",
        "a\nb\rc",
        "\udcff\udcfe",
    ),
    *("{{7*7}}", "<script>alert(1)</script>", "'; DROP TABLE x;--", "x" * 5000, "💀" * 50, "a=b", "patient=nobody"),
    *(
        "os:system",
        "builtins:eval",
        "no.such.module:Thing",
        "medunlearn.errors:InputError",
        "hub:no/such",
        ":",
        "a:",
    ),
    *(
        "!!python/object/apply:os.system ['touch HACKED']",
        "[" * 2000,
        "\u200b",
        "http://",
        "http://[::1",
        "NAME=",
        "=",
    ),
)
PATHS = (
    *(
        "fifo",
        "broken_link",
        "loop",
        "junk",
        "empty",
        "folder",
        "locked/x",
        "junk/below",
        "long" * 100,
        "new\nline",
    ),
    *("/dev/null", "/dev/zero", "/dev/stdin", "/proc/self/mem", "/proc/1/x", "/proc/nowhere/a/b", ""),
    *(
        "\x1b[31mred",
        "=1+1",
        "\udcff",
        "~",
        "bench",
        "target",
        "stored",
        "bench/records.parquet",
        "target/run.json",
    ),
)
LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
"""A billion values in nine lines of YAML."""
YAMLS = (
    "",
    "null",
    "- a\n- b",
    "just text",
    "{unclosed: [",
    "a: &a [*a]",
    "&x {a: *x}",
    "seed: 1\nseed: 2",
    "? [a, b]\n: c",
    "1: 2",
    "null: 3",
    "seed: !!python/object/apply:os.system ['touch HACKED']",
    "seed: !!python/name:os.system",
    "seed: !unknown x",
    "seed: !!binary x",
    "out: {a: b}",
    "seed: 2014-05-03",
    "seed: .nan",
    "name: '\\x00'",
    'name: "\\x1b[2J\\u202e"',
    "%YAML 9.9\n---\nseed: 1",
    "---\nseed: 1\n---\nseed: 2",
    "\tseed: 1",
    "seed: 1\x00",
    "é: ü",
    "seeed: 1",
    "quiet: maybe",
    "config: other.yaml",
    LAUGHS,
    "seed: " + "[" * 3000,
    "seed: " + "{a: " * 500 + "1" + "}" * 500,
    "seed: " + "9" * 5000,
    "x: " + "y" * 200_000,
)
JSONS = (
    "",
    "null",
    "[]",
    "{}",
    "3",
    '"x"',
    "{",
    "NaN",
    "[" * 5000,
    '{"a": 1e999}',
    '{"a":1,"a":2}',
    "\x00",
    "\ufeff{}",
)
VALUES: Sequence[object] = (
    *(
        None,
        True,
        -1,
        0,
        10**30,
        1e308,
        float("nan"),
        "",
        "x",
        "../../outside",
        "/etc",
        "\x1b[2J",
        "=1+1",
        "\ud800",
    ),
    *([], {}, [None], {"a": 1}, "credentialed", "complete", [[[[]]]], "x" * 5000),
)


@dataclass
class Hostile:
    """One input: words of a command line, and what has to be made before it is given.

    Attributes:
        kind: the group that it belongs to.
        refused: exit code 0 would be wrong.
    """

    kind: str
    words: list[str]
    prepare: list[Prepare] = field(default_factory=list)
    about: str = ""
    refused: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.about or shlex.join(self.words)}"


def odd_files() -> None:
    """The files of :data:`PATHS` in the working folder."""
    os.mkfifo("fifo")
    os.symlink("nowhere", "broken_link")
    os.symlink("loop", "loop")
    Path("junk").write_bytes(bytes(range(256)) * 8)
    Path("empty").touch()
    Path("folder").mkdir()
    Path("hostile.yaml").touch()


def command_of(base: str) -> Generated:
    words = BASES[base].split()
    key = max((key for key in verbs() if tuple(words[: len(key)]) == key), key=len)
    return Generated(verbs()[key])


class Generator:
    """Draws hostile inputs; the same seed draws the same ones."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.commands = {base: command_of(base) for base in BASES}

    def draw(self, base: str) -> Hostile:
        """One hostile input for this way to call a verb."""
        pick = self.random
        makers = [self.bad_value, self.bad_value, self.bad_words, self.bad_path, self.broken_file, self.broken_file]
        command = self.commands[base]
        if command.verb.file or "config" in command.flags:
            makers.append(self.bad_yaml)
        while (made := pick.choice(makers)(base)) is None:
            pass
        made.prepare.insert(0, odd_files)
        return made

    def words(self, base: str) -> list[str]:
        return shlex.split(BASES[base])

    def start(self, base: str) -> int:
        """How many words name the verb."""
        return len(self.commands[base].verb.words.split())

    # Flags

    def bad_value(self, base: str) -> Hostile:
        flag = self.random.choice([flag for key, flag in self.commands[base].flags.items() if key != "help"])
        value, refused = self.value_for(flag)
        words = self.words(base)
        if flag.name in words:
            place = words.index(flag.name)
            del words[place : place + (1 if flag.kind == "switch" else 2)]
        return Hostile("bad flags", [*words, f"{flag.name}={value}"], refused=refused)

    def value_for(self, flag: Flag) -> tuple[str, bool]:
        """A value, and whether no command may take it."""
        pick, metavar = self.random, flag.metavar.removesuffix(",...")
        if flag.kind == "switch":
            return pick.choice([*NUMBERS[2:], *TEXTS[6:]]), True
        if metavar in ("N", "X"):
            if pick.random() < 0.5:
                value = pick.choice(NO_NUMBERS)
                return value, value in ("x", "NaN", ".nan", "[1", "{}", "2014-05-03", "&a [*a]", "é")
            value = pick.choice(NUMBERS)
            return value, value in ("1e400", ".inf", "-.inf") or (metavar == "N" and value in ("1e308", "1.5"))
        if "|" in metavar and "FILE" not in metavar:
            word = pick.choice(metavar.split("|"))
            return pick.choice([word + "x", word.upper() + "!", word[:-1] + "\x00", *TEXTS[6:]]), True
        if metavar in ("PATH", "FILE"):
            return pick.choice(PATHS), False
        return pick.choice([*TEXTS, *PATHS, *NUMBERS]), False

    def bad_words(self, base: str) -> Hostile:
        """Unknown flags, flags without a value, words too many or too few, old forms."""
        pick, words, start = self.random, self.words(base), self.start(base)
        flag = pick.choice(list(self.commands[base].flags.values()))
        place = pick.randrange(2, max(3, len(flag.name)))
        near = flag.name[:place] + pick.choice(string.ascii_letters) + flag.name[place:]
        more = {
            "near": [near, "1"],
            "near=": [f"{near}=1"],
            "unknown": ["--" + pick.choice(TEXTS).replace("=", "") + "zz"],
            "short": ["-Z"],
            "old": [f"{flag.key}=1"],
            "extra": [pick.choice(TEXTS[6:]), pick.choice(TEXTS[6:]), "one-too-many"],
            "nested": [f"{flag.name}.{pick.choice(('x', '', 'a.b', '0', '__class__'))}", "1"],
            "end": ["--", "--out", "x", "y", "z"],
        }
        how = pick.choice([*more, "no value", "missing", "verb"])
        if how in more:
            needs_refusal = how in ("near", "near=", "unknown", "short", "old")
            return Hostile("bad flags", [*words, *more[how]], refused=needs_refusal)
        valued = [one for one in self.commands[base].flags.values() if one.kind != "switch"]
        if how == "no value" and valued:
            return Hostile("bad flags", [*words, pick.choice(valued).name], refused=True)
        if how == "verb":
            word = pick.randrange(start)
            words[word] += pick.choice(("x", "\x1b[2J", "\u202e", "=1", "\udcff"))
            return Hostile("bad flags", words, refused=True)
        return Hostile("bad flags", words[: pick.randrange(start, len(words) + 1)])

    # Paths

    def bad_path(self, base: str) -> Hostile | None:
        """A path of the command line replaced."""
        words = self.words(base)
        places = [n for n in range(self.start(base), len(words)) if Path(words[n]).suffix or words[n] in FOLDERS]
        if not places:
            return None
        place = self.random.choice(places)
        words[place] = self.random.choice(PATHS)
        return Hostile("path tricks", words)

    # Files

    def bad_yaml(self, base: str) -> Hostile:
        words, text = self.words(base), self.random.choice(YAMLS)
        if self.commands[base].verb.file:
            words[self.start(base)] = "hostile.yaml"
            if self.random.random() < 0.4:
                text = Path(BASES[base].split()[1]).name  # replaced below by the real one with a hostile part
                return self.bad_experiment(base, words)
        else:
            words += ["--config", "hostile.yaml"]
        return Hostile(
            "bad YAML", words, [lambda: write("hostile.yaml", text)], f"{shlex.join(words)}: {text[:80]!r}"
        )

    def bad_experiment(self, base: str, words: list[str]) -> Hostile:
        """The file of an experiment or a sweep with one key changed."""
        name, value, seed = BASES[base].split()[1], self.random.choice(VALUES), self.random.random()

        def write() -> None:
            import yaml

            content = yaml.safe_load(Path(name).read_text())
            _replace(content, value, random.Random(seed))
            write("hostile.yaml", json.dumps(content))

        return Hostile("bad YAML", words, [write], f"{shlex.join(words)}: {name} with {_short(value)}, {seed}")

    def broken_file(self, base: str) -> Hostile | None:
        """A file that the command reads, or one of a folder that it reads, broken."""
        inputs = [word for word in self.words(base)[self.start(base) :] if word in INPUTS]
        if not inputs:
            return None
        pick, top = self.random, self.random.choice(inputs)
        name = pick.choice(FILES[top]) if top in FILES else top
        how, break_it = pick.choice(list(breakages(name, pick)))
        kind = "broken models" if "model/" in name else "broken runs" if top in RUNS else "bad files"
        words = self.words(base)
        return Hostile(kind, words, [lambda: break_it(Path(name))], f"{shlex.join(words)}: {name} {how}")


FOLDERS = (
    "out",
    "bench",
    "target",
    "foreign",
    "unlearned",
    "stored",
    "audit",
    "identifiers",
    "review",
    "labels",
    "diagnosis",
)
RUNS = ("target", "unlearned", "stored", "audit", "identifiers", "review", "labels")
INPUTS = (
    *(
        "bench",
        "target",
        "unlearned",
        "stored",
        "identifiers",
        "review",
        "labels",
        "diagnosis",
        "lume",
        "tofu",
        "muse",
    ),
    *(
        "tasks",
        "notes.csv",
        "clinical.csv",
        "responses.jsonl",
        "options.jsonl",
        "admissions.jsonl",
        "spans.csv",
        "experiment.yaml",
    ),
    *("sweep.yaml", "tune.yaml", "annotated/labels.csv"),
)
FILES: dict[str, list[str]] = {}
"""Input folder -> its files, as :func:`know_world` found them."""


def know_world(root: Path) -> None:
    """Note which files the input folders hold."""
    for top in INPUTS:
        if (root / top).is_dir():
            paths = sorted(path for path in (root / top).rglob("*") if path.is_file())
            FILES[top] = [str(path.relative_to(root)) for path in paths if path.name != "README.md"]


def breakages(name: str, pick: random.Random) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Ways to break a file of this name."""
    seed = pick.random()
    yield "deleted", lambda path: path.unlink()
    yield "empty", lambda path: path.write_bytes(b"") and None
    yield "cut off", lambda path: rewrite(path, lambda content: content[: len(content) // 2])
    yield "junk", lambda path: rewrite(path, lambda content: random.Random(seed).randbytes(300))
    yield "one byte changed", lambda path: rewrite(path, lambda content: _flipped(content, seed))
    yield "nuls", lambda path: rewrite(path, lambda content: b"\0" * len(content))
    yield "a folder", lambda path: instead(path, lambda: path.mkdir())
    yield "a FIFO", lambda path: instead(path, lambda: os.mkfifo(path))
    yield "/dev/zero", lambda path: instead(path, lambda: path.symlink_to("/dev/zero"))
    yield "a loop", lambda path: instead(path, lambda: path.symlink_to(path.name))
    if name.endswith((".json", ".jsonl")):
        text, value = pick.choice(JSONS), pick.choice(VALUES)
        for _ in range(5):
            yield f"{text[:20]!r}", lambda path: write(path, text)
        for _ in range(12):
            yield f"with {_short(value)}, {seed}", lambda path: json_with(path, value, seed)
    if name.endswith((".yaml", ".yml")):
        text = pick.choice(YAMLS)
        for _ in range(10):
            yield f"{text[:40]!r}", lambda path: write(path, text)
    if name.endswith(".csv"):
        for _ in range(6):
            yield f"a cell changed, {seed}", lambda path: rewrite(path, lambda content: _celled(content, seed))
    if name.endswith(".parquet"):
        for how in ("other columns", "no rows", "nulls", "other types", "columns missing", "rows doubled"):
            yield how, lambda path, how=how: parquet_with(path, how, seed)  # type: ignore[misc]
    if name.endswith(".safetensors"):
        for _ in range(3):
            yield "a header that lies", lambda path: rewrite(path, lambda c: (2**62).to_bytes(8, "little") + c[8:])
            yield "NaN weights", lambda path: weights_with(path, float("nan"))


def write(path: str | Path, text: str) -> None:
    Path(path).write_bytes(text.encode("utf-8", "surrogatepass"))


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def _flipped(content: bytes, seed: float) -> bytes:
    if not content:
        return b"x"
    place = int(seed * len(content))
    return content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]


def _celled(content: bytes, seed: float) -> bytes:
    pick = random.Random(seed)
    lines = content.split(b"\n")
    line = pick.randrange(len(lines))
    cells = lines[line].split(b",")
    cells[pick.randrange(len(cells))] = pick.choice(TEXTS).encode("utf-8", "surrogateescape")
    lines[line] = b",".join(cells)
    return b"\n".join(lines)


def instead(path: Path, make: Callable[[], object]) -> None:
    """Something else in a file's place."""
    path.unlink()
    make()


def json_with(path: Path, value: object, seed: float) -> None:
    """A JSON file, or one line of a JSONL file, with one place changed."""
    text = path.read_text(encoding="utf-8")
    pick = random.Random(seed)
    if path.suffix == ".jsonl":
        lines = text.splitlines()
        place = pick.randrange(len(lines))
        content = json.loads(lines[place])
        _replace(content, value, pick)
        lines[place] = json.dumps(content)
        path.write_text("\n".join(lines) + "\n")
        return
    try:
        content = json.loads(text)
    except ValueError:  # lines of JSON in a .json file
        content = [json.loads(line) for line in text.splitlines()]
    _replace(content, value, pick)
    path.write_text(json.dumps(content))


def json_with_key(path: Path, key: str, value: object, *, drop: bool = False) -> None:
    """A JSON object with one key replaced, added or dropped."""
    content = json.loads(path.read_text(encoding="utf-8")) | {key: value}
    if drop:
        del content[key]
    path.write_text(json.dumps(content))


def _replace(content: object, value: object, pick: random.Random) -> None:
    """Replace, drop or rename one place of nested JSON."""
    places: list[tuple[object, object]] = []

    def walk(node: object, depth: int) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, inner in items:
            places.extend([(node, key)] * max(1, 8 - 3 * depth))
            if depth < 6:
                walk(inner, depth + 1)

    walk(content, 0)
    if not places:
        return
    node, key = pick.choice(places)
    how = pick.random()
    if how < 0.25:
        del node[key]  # type: ignore[attr-defined]
    elif how < 0.35 and isinstance(node, dict):
        node[f"{key}x"] = node.pop(key)
    else:
        node[key] = value  # type: ignore[index]


def parquet_with(path: Path, how: str, seed: float) -> None:
    """A table broken in one way."""
    import pandas as pd

    pick, frame = random.Random(seed), pd.read_parquet(path)
    columns = list(frame.columns)
    column = pick.choice(columns)
    if how == "other columns":
        frame = frame.rename(columns={column: f"{column}x"})
    elif how == "no rows":
        frame = frame.iloc[:0]
    elif how == "nulls":
        frame[column] = None
    elif how == "other types":
        frame[column] = pd.Series([pick.choice(["x", "-1", "\x1b[2J"])] * len(frame), index=frame.index)
    elif how == "foreign":
        frame = pd.DataFrame({"city": ["Berne"], "people": [134_000]})
    elif how == "text values":
        frame["value"] = "x"
    elif how == "columns missing":
        frame = frame.drop(columns=column)
    else:
        frame = pd.concat([frame, frame])
    frame.to_parquet(path)


def weights_with(path: Path, value: float, *, everywhere: bool = True) -> None:
    """Weights that are all this value, or one alone."""
    from safetensors.torch import load_file, save_file

    weights = {name: tensor.clone() for name, tensor in load_file(path).items()}
    for tensor in list(weights.values())[: None if everywhere else 1]:
        tensor.view(-1)[: None if everywhere else 1] = value
    save_file(weights, path, {"format": "pt"})


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:37]}..."
