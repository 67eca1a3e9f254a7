"""Control loops: what people apply becomes pods, claims get volumes, nodes that die lose their pods.

Each loop is a module here, written against the client interface: it runs against the store in this process
in virtual time as well as against any API server. What a loop decides are plain functions over objects; its
class only looks things up and writes.
"""
