"""What only a machine with an NVIDIA GPU can prove: ``make test-gpu``. The same checks run over the emulated
GPU in `make test`, so that the script is known to work where it counts."""
