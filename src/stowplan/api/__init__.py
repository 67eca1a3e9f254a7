"""Kubernetes objects and the rules that concern them alone: no I/O, no state.

Objects are frozen msgspec structs that declare only the fields the scheduler reads; unknown fields are
skipped while decoding, which is what makes decoding cheap.

* `pod`, `node`, `devices`, `storage`, `pod_groups`, `workloads`: the objects; `decode` reads them
* `catalogue`: the kinds that an API server serves; `requests`, `status`: requests and refusals
* `rules`: rules over objects; `cel`: expressions; `releases`: what a release of Kubernetes has

Begin with `pod` and `catalogue`. Imports `runtime` and `gocompat` only.
"""
