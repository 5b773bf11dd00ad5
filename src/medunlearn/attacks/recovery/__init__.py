"""Recovery attacks: whether short fine-tuning, quantization or repeated sampling brings back forgotten text.

Each attack measures the same questions at several *strengths*: steps of fine-tuning, the type of the weights, the
number of samples. The first strength is the model as it is. Files in the attack's folder
(``runs/x/attacks/<split>-<key>/``): ``scores.parquet``, an item per question, with ``attack``
(``relearning.retain``, ``relearning.forget_half``, ``quantization``, ``sampling``) and ``strength``; for each kind
``<kind>_summary.parquet``, a row per attack, strength, side, fold, kind of question and measure, whose ``change``
is the mean minus that of the model as it is, paired on questions; ``<kind>_subjects.parquet``, a row per subject.
"""
