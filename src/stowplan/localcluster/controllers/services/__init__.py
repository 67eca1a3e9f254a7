"""Controllers of services: Endpoints and EndpointSlices, from the pods that `servicepods` finds."""
