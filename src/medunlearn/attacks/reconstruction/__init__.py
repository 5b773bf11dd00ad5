"""Reconstruction: whether naming the nodes that a text belongs to brings it back.

Files of an attack, in its folder (``runs/x/attacks/<split>-<key>/``):

``scores.parquet``, the score table (:mod:`medunlearn.results.scores`), an item a question, with the labels
``side``, ``fold``, ``kind``, ``level``, ``node``, ``attack`` (``cumulative``) and

- ``given``: the coarsest level whose name stands in front of the question: ``none`` for nothing, then ``study``,
  ``patient``, ``institution`` (the benchmark's own levels, from fine to coarse);
- ``identifiers``: all levels that are named, coarse to fine: ``""``, ``study``, ``patient + study``,
  ``institution + patient + study``.

``reconstruction_summary.parquet``, a row a side, fold, kind, context level and metric:

- ``split``, ``forgotten_level`` (the level that the split names nodes of: what Figure 6 has on its x-axis),
  ``side``, ``fold``, ``kind``, ``context`` (``given`` above), ``identifiers``, ``metric``;
- ``value``, ``low``, ``high`` (Float64; the mean with its 95% interval, by subject), ``n_scored``, ``n_unscored``,
  ``n_subjects``;
- ``change``, ``change_low``, ``change_high``, ``change_p`` (Float64): the same minus that at ``none``, paired on
  questions and resampled by subject: above 0 = naming brings something back. Null where ``context`` is ``none``.

Comparisons of models (unlearned against target and retrained, paired on questions) are computed from the scores
when they are asked for: :func:`medunlearn.attacks.reconstruction.results.compare_models`.

What models said is in the run's ``attacks/responses/`` (:class:`medunlearn.data.responses.ResponseStore`), with
``variant`` = ``<context mode>|<context level>``, e.g. ``closed_book|patient``.
"""
