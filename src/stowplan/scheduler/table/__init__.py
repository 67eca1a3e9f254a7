"""The cluster as a table: a node is a row, what plugins look at is a column.

table, view              the table itself; what a plugin is handed of it: some rows, or one
columns, nodelabels      resource lines, values as small ids, counts; the labels of nodes as columns
changes                  the log of changed rows that lets results be reused
podinfo, terms           a pod as the table knows it; its affinity terms, counted where pods have them
labelsets, matchers      pods with the same labels; selections of pods, counted by row and by domain
selection, nodetree      nodes that match a node selector; the zone-interleaved order of nodes
nodecontents, lookups    images and host ports; namespaces, services, controllers, disruption budgets
storage, volumepools     volumes, claims and classes with what is assumed of them; what claims can get
attachments, volumesinuse  volumes to attach and their limits; volumes and disks in use by row
"""
