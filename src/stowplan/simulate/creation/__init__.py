"""Creating the objects of manifests in a simulated cluster, as the API server and the controllers would.

* `manifests` reads objects, with the defaults and the validation of the API server
* `workloads` makes pods by the functions of the controllers
* `admission` has the API server's admission over the cluster's objects, and charges quotas
* `pods` creates the pods in the cluster, with their owners and claims
* `applying`: apply and scale, as kubectl does
"""
