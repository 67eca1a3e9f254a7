"""The cluster as a table: a node is a row, what plugins look at is a column.

table.py     the table itself: nodes and pods come and go, columns stay exact
columns.py   numeric columns by resource, and label columns of interned values
changes.py   the log of touched rows that lets results be reused
podinfo.py   a pod as the table knows it; what pods of one template share
kinds.py     pods alike in namespace and labels, and who selects them
matchers.py  counted selections of pods, by row and by topology domain
terms.py     affinity terms that pods on nodes carry, counted by domain
counts.py    index → count, small while small
hostports.py, images.py   what is taken, what is present
lookups.py   namespaces, services and owners, by name
nodetree.py  the zone-interleaved order of nodes
view.py      what a plugin is handed: some rows, or one
"""
