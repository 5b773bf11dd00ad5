"""The language-model client against a fake server in a process of its own.

1. Throughput and memory: the same requests, a tenth of them and all; bare httpx with as many in flight beside it.
2. A share of injected faults (and a few records that no repeat mends): every record ends answered or reported.
3. SIGKILL at a random moment in each fifth of the work, then resumed: the table of a run that was never stopped.
4. A second run: no request for what was answered (it is printed in 1 as well, where everything was).

    python benchmarks_perf/llm_client.py --records 10000 --in-flight 32 --faults 0.2 --kills 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
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
from server_faults import FAULTS

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


def hopeless_or(share: float) -> Any:
    """Faults in a share of requests; every 500th record never gets a usable answer, every 501st is too long."""
    choose = share_of_faults(share, kinds=FAULTS)

    def behave(body: dict[str, Any], nth: int) -> str:
        number = int(body["messages"][1]["content"].split(":")[0].split()[1])
        if share and number % 500 == 7:
            return "wrong_schema"
        if share and number % 501 == 8:
            return "context_length"
        return choose(body, nth)

    return behave


@contextmanager
def server(share: float) -> Iterator[str]:
    """A fake server in a process of its own."""
    words = [sys.executable, __file__, "--serve", str(share)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def serve(share: float) -> None:
    with FakeServer(hopeless_or(share), keep=False) as server:
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
    print(f"   lost {lost}, twice {twice}, without answer and without reason {unsaid}")
    if lost or twice or unsaid:
        raise SystemExit("records are lost, doubled or unreported")
    return table.drop(columns="stored").reset_index(drop=True)


async def bare(url: str, count: int, in_flight: int) -> float:
    """Seconds of plain httpx: no schema check, no store, no budget, no retry; one connection a worker."""
    source = requests(count)

    async def worker() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            for request in source:
                messages = [
                    {"role": m.role, "content": m.content} for m in request.prompt if isinstance(m, Message)
                ]
                answer = await client.post(f"{url}/chat/completions", json={"model": "m", "messages": messages})
                answer.json()["choices"][0]["message"]["content"]

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return time.perf_counter() - start


def throughput(folder: Path, count: int, in_flight: int) -> None:
    print(f"1. {count} records, {in_flight} in flight, no faults")
    with server(0.0) as url:
        seconds = asyncio.run(bare(url, count, in_flight))
        result = finish(child(url, folder / "fast", count, in_flight))
        again = finish(child(url, folder / "fast", count, in_flight))
    print(f"   bare httpx {count / seconds:7.0f} requests/s")
    print(f"   the client {count / result['seconds']:7.0f} requests/s, {result['seen']}")
    first, last = (f"{mib:.1f} MiB after {done}" for done, mib in result["memory"].items())
    print(f"   memory: {first}, {last}")
    outcomes(folder / "fast", count)
    print(f"   a second run: {again['sent']} requests, {count / again['seconds']:.0f} records/s")


def with_faults(url: str, folder: Path, count: int, in_flight: int) -> pd.DataFrame:
    result = finish(child(url, folder / "whole", count, in_flight))
    print(f"   {count / result['seconds']:.0f} records/s, {result['sent']} requests sent, {result['seen']}")
    table = outcomes(folder / "whole", count)
    print(
        "   "
        + "; ".join(f"{n} x {reason}" for reason, n in table.reason[table.reason != ""].value_counts().items())
    )
    return table


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--faults", type=float, default=0.2)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve is not None:
        return serve(chosen.serve)
    if chosen.run:
        url, place, records, flight = chosen.run
        print(json.dumps(run(url, Path(place), int(records), int(flight))))
        return None
    count, in_flight = chosen.records, chosen.in_flight
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        throughput(folder, count, in_flight)
        with server(chosen.faults) as url:
            print(f"2. {chosen.faults:.0%} of requests go wrong")
            whole = with_faults(url, folder, count, in_flight)
            print(f"3. SIGKILL {chosen.kills} times")
            table = killed(url, folder, count, in_flight, whole, chosen.kills)
            print(f"   same final table: {table.equals(whole)}")
            second_run(url, folder / "killed", count, in_flight, whole)
    return None


if __name__ == "__main__":
    main()
