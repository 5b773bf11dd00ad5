"""Client for any OpenAI-compatible server, with a data-protection guard and a response store.

    settings = check(ServerSettings, {"base_url": "http://127.0.0.1:8000/v1", "model": "qwen3-32b"})
    decision = decide(settings.base_url, data_use=benchmark.data_use, records=benchmark.records)
    with Store("runs/build/llm") as store, Client(settings, decision, store=store) as client:
        for outcome in client.stream(requests):
            ...

:mod:`guard` decides which data may leave this machine. :mod:`exchange` takes each request through :mod:`store`,
:mod:`rate_limiter`, :mod:`usage` (the budget), :mod:`connection` (with retries: :mod:`faults`), :mod:`structured`.
"""

from medunlearn.llm.client import Client
from medunlearn.llm.estimate import CostEstimate, estimate
from medunlearn.llm.guard import FLAG, Decision, RemoteRefusedError, decide
from medunlearn.llm.requests import LogProbs, Message, Outcome, ReplyDetails, Request
from medunlearn.llm.server_settings import ServerSettings
from medunlearn.llm.store import Store, StoredResponse
from medunlearn.llm.usage import Budget, Usage

__all__ = [
    "FLAG",
    "Budget",
    "Client",
    "CostEstimate",
    "Decision",
    "LogProbs",
    "Message",
    "Outcome",
    "RemoteRefusedError",
    "ReplyDetails",
    "Request",
    "ServerSettings",
    "Store",
    "StoredResponse",
    "Usage",
    "decide",
    "estimate",
]
