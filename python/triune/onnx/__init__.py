"""What belongs to ONNX: `backend`, its own interface to runtimes."""
