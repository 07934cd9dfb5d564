"""Every operator's meaning: importing this module fills `model.OPERATORS`."""

from tests.onnx import attention, control, elementwise, layers, movement, quantization, reductions, signal

__all__ = ["attention", "control", "elementwise", "layers", "movement", "quantization", "reductions", "signal"]
