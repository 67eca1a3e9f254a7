"""Explanations of claims without devices: diagnosis, shortfall, remedies."""
