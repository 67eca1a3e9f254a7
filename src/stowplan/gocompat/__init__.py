"""Go's text formats, reproduced to the letter: what kube-scheduler prints and accepts is what Go does.

* `quoting`: strings in quotes (`%q`) and errors about files
* `durations`, `numbers`: `1m30s`, int64, floats
* `jsontext`, `yamltext`: JSON and YAML as Go's packages read and write them, messages included
* `types`: Go's types, for strict decoding of documents into structs
* `regexps`: RE2's expressions; `protowire`: fields of protobuf messages
* `caching`: results by text, for all of these

It knows nothing of Kubernetes objects or of the scheduler, so that every other package can use it.
"""
