"""The sentences of documents: headline, cause, remedy, what is awaited. They are made here and nowhere else.

Whoever makes a document, or adds to one, calls `told_pod`, `told_group` and so on last; terminal, page, JSON
and events show what stands there then. Names are never cut here: whoever shows a sentence knows how much room
there is, and names that a viewer may not see are found by their full length.
"""
