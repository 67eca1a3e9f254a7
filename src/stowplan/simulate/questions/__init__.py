"""Questions of the page, answered on a copy of a running scheduler's cluster: fit, whatif, compare, explain.

* `bodies`: the body of each question, with the defaults of the command's options
* `answers`: from a body and the objects of a cluster to a document, with the code of the commands
* `commands`: the command line that gives the same answer
* `host`: rights, limits, and the forked process in which an answer is computed

Begin with `host.py`.
"""

from stowplan.simulate.questions.host import ForkedQuestions

__all__ = ["ForkedQuestions"]
