"""Attacks on the models of runs, stage by stage; tables stay in each run's folder."""
