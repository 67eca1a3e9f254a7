"""A Kubernetes cluster in this process: API server, controllers, kubelets, and `up` with all of them.

* `store`: objects, versions, watches; `customresources`, `apply`, `schema` below it; `durable` keeps them
  on disk
* `admission`: defaults, plugins, validation; `auth`: users and rights; `apiserver`: all of it over HTTP
* `controllers` and `kubelets`: loops on `controllerruntime`, which know the API server by the client
  interface
* `client`: that interface over the store, without a network; `objects`, `quota`: facts that all of them
  share

It may import everything but `simulate`, `testing`, `lab` and `cli`; import-linter has the layers within.
Begin with `up.cluster`, or with `store.store`.
"""
