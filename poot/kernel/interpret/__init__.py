"""The interpreter of kernel IR: NumPy, all lanes of a chunk at once, no compiler.

run(kernel, bind(kernel, {"x": x, "y": y}), groups=(16, 1, 1))
"""

from poot.kernel.interpret.launch import BOUND_SLOTS, BufferView, Interpreter, bind, run

__all__ = ["BOUND_SLOTS", "BufferView", "Interpreter", "bind", "run"]
