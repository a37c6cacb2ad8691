"""Questions asked of the model: comparisons and published claims; it neither prints nor plots.

Imported lazily: `simulator.studies.compare`, `simulator.studies.claims`.
"""
