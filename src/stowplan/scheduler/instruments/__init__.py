"""Instruments of every scheduler: metrics, decisions for explanations, log lines, batches, annotations.

Each is an instrument (scheduler/cycle/instrument.py). `scheduler.py` installs them.
"""
