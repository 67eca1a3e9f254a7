"""Control loops: applied objects become pods, claims get volumes, dead nodes lose their pods.

Each loop is a module here, written against the client interface: it runs against the store in this process in
virtual time as well as against any API server. The decisions of a loop are plain functions over objects; its
class only looks things up and writes.
"""
