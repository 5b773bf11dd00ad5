"""A client of any OpenAI-compatible server, a guard in front of it, and a store behind it.

    settings = check(ServerSettings, {"base_url": "http://127.0.0.1:8000/v1", "model": "qwen3-32b"})
    decision = decide(settings.base_url, data_use=benchmark.data_use, records=benchmark.records)
    with Store("runs/build/llm") as store, Client(settings, decision, store=store) as client:
        for outcome in client.stream(requests):
            ...

- :mod:`guard` decides what may leave this machine; :mod:`wire` sees that nothing else does.
- :mod:`requests` is what is asked and what came of it; :mod:`settings` how the server is reached.
- :mod:`client` is the door; behind it :mod:`asking` takes each request through :mod:`store`, :mod:`limits`,
  :mod:`usage` (the budget), :mod:`attempt`, :mod:`faults`, :mod:`conversation` and :mod:`structured`.
- :mod:`estimate` counts before anything is sent.
"""

from medunlearn.llm.client import Client
from medunlearn.llm.estimate import Estimate, estimate
from medunlearn.llm.guard import FLAG, Decision, RemoteRefusedError, decide
from medunlearn.llm.requests import LogProbs, Message, Outcome, Request
from medunlearn.llm.settings import ServerSettings
from medunlearn.llm.store import Store, Stored
from medunlearn.llm.usage import Budget, Usage

__all__ = [
    "FLAG",
    "Budget",
    "Client",
    "Decision",
    "Estimate",
    "LogProbs",
    "Message",
    "Outcome",
    "RemoteRefusedError",
    "Request",
    "ServerSettings",
    "Store",
    "Stored",
    "Usage",
    "decide",
    "estimate",
]
