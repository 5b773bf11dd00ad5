"""Reconstruction: whether naming the nodes that a text belongs to makes the model reproduce it.

Files in the attack's folder (``runs/x/attacks/<split>-<key>/``): ``scores.parquet``, an item per question, with
``given`` (the coarsest level that is named in front of it; ``none`` for nothing) and ``identifiers`` (all that are,
coarse to fine: ``institution + patient``); ``reconstruction_summary.parquet``, a row per side, fold, kind, context
(``given``) and metric, whose ``change`` is the mean minus that at ``none``, paired on questions: above 0 = naming
brings something back. Responses are in the run's ``attacks/responses/``, with ``variant`` = ``<context
mode>|<context level>``, e.g. ``closed_book|patient``.
"""
