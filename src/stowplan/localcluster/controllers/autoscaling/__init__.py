"""The HorizontalPodAutoscaler controller: `podautoscaler` is the loop, the rest computes replicas."""
