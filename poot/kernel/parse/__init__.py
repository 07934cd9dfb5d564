"""The parser of the kernel language: ordinary Python functions to kernel IR.

source.py finds the text, syntax.py checks it, annotations.py reads the parameters, and the classes from scope.py over
expressions, conditions, elements, intrinsics, calls, helpers and assignments to statements.py parse the body.
"""

from __future__ import annotations

from poot.kernel.parse.definition import Definition as Definition
from poot.kernel.parse.definition import define as define
from poot.kernel.parse.definition import definition as definition
from poot.kernel.parse.specialise import Layout as Layout
from poot.kernel.parse.specialise import Request as Request
from poot.kernel.parse.specialise import Specialised as Specialised
from poot.kernel.parse.specialise import specialise as specialise
