"""Calls that are kept: registered before they run, joined by their repetitions, remembered after they end."""
