"""Many devices charged abreast: the rules of the modules beside this package, in columns.

Most devices in most windows are simple: one piece from the beginning to the end, and all that was done on
them was seen to its end. ``seen`` says which these are, ``explained`` has the rules of evidence.py for them,
``divided`` those of formula.py, ``claims`` those of remarks.py, silicon.py and beside.py. All others are
charged one by one. Both ways give the same bytes, which a property test holds; whoever changes a rule changes
both.
"""

from gpuledger.attribution.abreast.charging import charge_abreast
from gpuledger.attribution.abreast.seen import Facts
from gpuledger.attribution.abreast.written import Abreast, write

__all__ = ["Abreast", "Facts", "charge_abreast", "write"]
