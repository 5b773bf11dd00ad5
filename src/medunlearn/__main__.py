"""``python -m medunlearn``, and ``torchrun -m medunlearn`` for several processes."""

from medunlearn.cli.main import main

main()
