"""The in-tree plugins, one module or folder each.

`catalog.py` lists every plugin name with its extension points and defaults, `registry.py` maps names to the
classes here, `args/` holds the arguments a configuration can give them.
"""
