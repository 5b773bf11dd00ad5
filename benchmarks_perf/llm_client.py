"""The language-model client against a fake server in a process of its own.

1. Throughput and memory: the same requests, a tenth of them and all; bare httpx with as many in flight beside it.
2. A share of injected faults of 24 kinds (and a few records that no repeat mends): every record ends answered or
   reported, none is lost, doubled or filed under another. Each answer names its record.
3. SIGKILL at a random moment in each fifth of the work, then resumed: the table of a run that was never stopped.
4. A second run: no request for what was answered (it is printed in 1 as well, where everything was).
5. A server that sends a second response to a twentieth of requests, at four moments: misfiled records, with httpx
   as it comes (connections are used again) beside the client.
6. The cost of one connection a request: bare httpx with connections used again and not, plain and TLS on loopback.

    python benchmarks_perf/llm_client.py --records 10000 --in-flight 32 --faults 0.2 --kills 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import psutil

from medunlearn.llm import Client, Message, Request, ServerSettings, Store, decide
from medunlearn.seeds import generator

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from fake_server import FakeServer, share_of_faults
from server_faults import FAULTS, TWICE

NOTE = "A 61-year-old patient came with chest pain and left after five days. " * 20
SCHEMA = {
    "type": "object",
    "properties": {"label": {"enum": ["Cancer", "Cardiovascular", "Other"]}, "reason": {"type": "string"}},
    "required": ["label", "reason"],
    "additionalProperties": False,
}


def requests(count: int) -> Iterator[Request]:
    for number in range(count):
        prompt = (Message("system", "Label the note."), Message("user", f"Note {number}: {NOTE}"))
        yield Request(f"r{number}", prompt, schema=SCHEMA, max_tokens=200, seed=0, prompt_version="label@1")


def number_of(body: dict[str, Any]) -> int:
    return int(body["messages"][1]["content"].split(":")[0].split()[1])


def answer_to(number: int) -> dict[str, str]:
    """The one right answer to a record, which no other record has."""
    return {"label": SCHEMA["properties"]["label"]["enum"][number % 3], "reason": f"of note {number}"}


def hopeless_or(share: float, kinds: Sequence[str], log: Path | None) -> Any:
    """Faults in a share of requests; every 500th record never gets a usable answer, every 501st is too long."""
    choose = share_of_faults(share, kinds=kinds)
    lines = None if log is None else log.open("w", buffering=1)

    def behave(body: dict[str, Any], nth: int) -> str:
        number = number_of(body)
        kind = choose(body, nth)
        if kinds == FAULTS and share and number % 500 == 7:
            kind = "wrong_schema"
        if kinds == FAULTS and share and number % 501 == 8:
            kind = "context_length"
        if lines is not None and kind != "well":
            print(kind, f"r{number}", file=lines)
        return kind

    return behave


@contextmanager
def server(
    share: float, *, kinds: Sequence[str] = FAULTS, log: Path | None = None, tls: Path | None = None
) -> Iterator[str]:
    """A fake server in a process of its own; ``log`` gets what went wrong, with whom."""
    how = json.dumps([share, list(kinds), log and str(log), tls and str(tls)])
    words = [sys.executable, __file__, "--serve", how]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def serve(share: float, kinds: Sequence[str], log: str | None, tls: str | None) -> None:
    behave = hopeless_or(share, tuple(kinds), Path(log) if log else None)
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Path(tls) / "cert.pem", Path(tls) / "key.pem")
    with FakeServer(
        behave, answer=lambda body: json.dumps(answer_to(number_of(body))), keep=False, tls=context
    ) as server:
        print(server.base_url, flush=True)
        signal.pause()


def run(url: str, folder: Path, count: int, in_flight: int) -> dict[str, Any]:
    """One run in this process; what came of each record goes to a JSON-lines file beside the store."""
    settings = ServerSettings(
        base_url=url, model="m", concurrency=in_flight, backoff_seconds=0.02, retries=15, corrections=6
    )
    process, memory = psutil.Process(), {}
    seen: Counter[str] = Counter()
    start = time.perf_counter()
    with (
        Store(folder) as store,
        Client(settings, decide(url, data_use="open"), store=store) as client,
        (folder / "outcomes.jsonl").open("w") as out,
    ):
        for done, outcome in enumerate(client.stream(requests(count)), 1):
            value = outcome.value if outcome.status == "answered" else None
            print(json.dumps([outcome.id, outcome.status, outcome.reason, value, outcome.stored]), file=out)
            seen[outcome.status] += 1
            if done in (count // 10, count):
                memory[done] = process.memory_info().rss / 2**20
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "sent": client.spent.requests, "seen": dict(seen), "memory": memory}


def child(url: str, folder: Path, count: int, in_flight: int) -> subprocess.Popen[str]:
    words = [sys.executable, __file__, "--run", url, str(folder), str(count), str(in_flight)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a run ended with {process.returncode}")
    result: dict[str, Any] = json.loads(said)
    return result


def outcomes(folder: Path, count: int) -> pd.DataFrame:
    """The final table of a run; stops if a record is missing, or there twice."""
    rows = [json.loads(line) for line in (folder / "outcomes.jsonl").read_text().splitlines()]
    table = pd.DataFrame(rows, columns=["id", "status", "reason", "value", "stored"]).sort_values("id")
    lost, twice = count - table.id.nunique(), int(table.id.duplicated().sum())
    unsaid = int(((table.status != "answered") & (table.reason == "")).sum())
    misfiled = misfiled_in(table)
    print(f"   of {count}: {lost} lost, {twice} doubled, {misfiled} misfiled, {unsaid} without answer and reason")
    if lost or twice or misfiled or unsaid:
        raise SystemExit("records are lost, doubled, misfiled or unreported")
    return table.drop(columns="stored").reset_index(drop=True)


def misfiled_in(table: pd.DataFrame) -> int:
    """Records whose answer is another's."""
    answered = table[table.status == "answered"]
    return sum(value != answer_to(int(name[1:])) for name, value in zip(answered.id, answered.value, strict=True))


async def bare(
    url: str, count: int, in_flight: int, *, again: bool = True, trusted: ssl.SSLContext | bool = True
) -> tuple[float, float, int]:
    """Plain httpx: no schema check, store, budget, retry; one connection a worker (``again``), or one a request.

    Returns:
        seconds, CPU seconds of this process, and records that got another's answer.
    """
    source, misfiled = requests(count), 0
    headers = {} if again else {"connection": "close"}

    async def worker() -> None:
        nonlocal misfiled
        async with httpx.AsyncClient(trust_env=False, headers=headers, verify=trusted) as client:
            for request in source:
                messages = [
                    {"role": m.role, "content": m.content} for m in request.prompt if isinstance(m, Message)
                ]
                answer = await client.post(f"{url}/chat/completions", json={"model": "m", "messages": messages})
                content = json.loads(answer.json()["choices"][0]["message"]["content"])
                misfiled += content != answer_to(int(request.id[1:]))

    start, spent = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return time.perf_counter() - start, time.process_time() - spent, misfiled


def throughput(folder: Path, count: int, in_flight: int) -> None:
    print(f"1. {count} records, {in_flight} in flight, no faults")
    with server(0.0) as url:
        seconds, _, _ = asyncio.run(bare(url, count, in_flight))
        result = finish(child(url, folder / "fast", count, in_flight))
        again = finish(child(url, folder / "fast", count, in_flight))
    print(f"   bare httpx {count / seconds:7.0f} requests/s")
    print(f"   the client {count / result['seconds']:7.0f} requests/s, {result['seen']}")
    first, last = (f"{mib:.1f} MiB after {done}" for done, mib in result["memory"].items())
    print(f"   memory: {first}, {last}")
    outcomes(folder / "fast", count)
    print(f"   a second run: {again['sent']} requests, {count / again['seconds']:.0f} records/s")


def with_faults(url: str, folder: Path, count: int, in_flight: int, log: Path) -> pd.DataFrame:
    result = finish(child(url, folder / "whole", count, in_flight))
    print(f"   {count / result['seconds']:.0f} records/s, {result['sent']} requests sent, {result['seen']}")
    table = outcomes(folder / "whole", count)
    show_kinds(log, table)
    print(
        "   "
        + "; ".join(f"{n} x {reason}" for reason, n in table.reason[table.reason != ""].value_counts().items())
    )
    return table


def show_kinds(log: Path, table: pd.DataFrame) -> None:
    """By kind of fault: how often it was met, by how many records, and how these ended."""
    met = pd.DataFrame([line.split() for line in log.read_text().splitlines()], columns=["kind", "id"])
    status = dict(zip(table.id, table.status, strict=True))
    kinds = len(set(met.kind) & set(FAULTS))
    print(f"   {kinds} of {len(FAULTS)} kinds, {len(met)} faults, {met.id.nunique()} records")
    print(f"   {'kind of fault':<16}{'times':>7}{'records':>9}{'answered':>10}{'reported':>10}")
    for kind, rows in met.groupby("kind"):
        ends = Counter(status[name] == "answered" for name in set(rows.id))
        print(f"   {kind!s:<16}{len(rows):>7}{rows.id.nunique():>9}{ends[True]:>10}{ends[False]:>10}")


def killed(url: str, folder: Path, count: int, in_flight: int, whole: pd.DataFrame, kills: int) -> pd.DataFrame:
    """One kill at a random moment in each of so many equal parts of the work, the last of them late."""
    draw = generator("llm_client", "kills", count)
    to_store = int((whole.status != "failed").sum())
    with Store(folder / "killed") as store:
        for part in range(kills):
            moment = int(to_store * (part + float(draw.random())) / kills)
            process = child(url, folder / "killed", count, in_flight)
            while len(store) < moment and process.poll() is None:
                time.sleep(0.02)
            if process.poll() is not None:
                raise SystemExit("a run ended before it could be killed")
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            print(f"   killed with {len(store)} of {to_store} stored ({len(store) / to_store:.0%})")
    result = finish(child(url, folder / "killed", count, in_flight))
    print(f"   resumed: {result['sent']} requests sent, {result['seen']}")
    return outcomes(folder / "killed", count)


def second_run(url: str, folder: Path, count: int, in_flight: int, whole: pd.DataFrame) -> None:
    failed = int((whole.status == "failed").sum())
    result = finish(child(url, folder, count, in_flight))
    print(
        f"4. a second run: {result['sent']} requests, for {failed} records that no server answered the first time"
    )
    print(
        f"   {count / result['seconds']:.0f} records/s; same final table: {outcomes(folder, count).equals(whole)}"
    )


def two_responses(folder: Path, count: int) -> None:
    print(f"5. a second response to a twentieth of requests: records of {count} that got another's answer")
    print(f"   {'second response':<28}{'httpx':>8}{'client':>8}{'lost':>6}{'doubled':>9}")
    words = ["in the same packet", "1 ms later", "20 ms later", "when the next request came"]
    for kind, moment in zip(TWICE, words, strict=True):
        with server(0.05, kinds=(kind,)) as url:
            _, _, misfiled = asyncio.run(bare(url, count, 8))
            finish(child(url, folder / kind, count, 8))
        rows = [json.loads(line) for line in (folder / kind / "outcomes.jsonl").read_text().splitlines()]
        table = pd.DataFrame(rows, columns=["id", "status", "reason", "value", "stored"])
        lost, doubled = count - table.id.nunique(), int(table.id.duplicated().sum())
        print(f"   {moment:<28}{misfiled:>8}{misfiled_in(table):>8}{lost:>6}{doubled:>9}")
        if lost or doubled or misfiled_in(table) or set(table.status) != {"answered"}:
            raise SystemExit("records are lost, doubled or misfiled")


def connection_cost(folder: Path, count: int, in_flight: int) -> None:
    print(f"6. bare httpx, {count} requests, {in_flight} in flight: connections used again, and one a request")
    openssl = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=here"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*openssl.split(), *names], cwd=folder, check=True, capture_output=True)
    trusted = ssl.create_default_context(cafile=folder / "cert.pem")
    for title, tls in (("plain", None), ("TLS", folder)):
        with server(0.0, tls=tls) as url:
            for again in (True, False):
                seconds, cpu, _ = asyncio.run(bare(url, count, in_flight, again=again, trusted=trusted))
                how = "used again" if again else "one a request"
                pace = f"{count / seconds:7.0f} requests/s, {1000 * cpu / count:5.2f} ms CPU a request"
                print(f"   {title:<6}{how:<14}{pace}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--faults", type=float, default=0.2)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--serve", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve is not None:
        return serve(*chosen.serve)
    if chosen.run:
        url, place, records, flight = chosen.run
        print(json.dumps(run(url, Path(place), int(records), int(flight))))
        return None
    count, in_flight = chosen.records, chosen.in_flight
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        throughput(folder, count, in_flight)
        with server(chosen.faults, log=folder / "faults.log") as url:
            print(f"2. {chosen.faults:.0%} of requests go wrong")
            whole = with_faults(url, folder, count, in_flight, folder / "faults.log")
            print(f"3. SIGKILL {chosen.kills} times")
            table = killed(url, folder, count, in_flight, whole, chosen.kills)
            print(f"   same final table: {table.equals(whole)}")
            second_run(url, folder / "killed", count, in_flight, whole)
        two_responses(folder, min(count, 3000))
        connection_cost(folder, min(count, 3000), in_flight)
    return None


if __name__ == "__main__":
    main()
