"""Leader election: of several instances one schedules, and the others take over when it is gone."""
