"""Attacks on the models of runs, stage by stage; tables are stored in each run's folder."""
