"""Trainings of a line written by hand, in CUDA C++, C++ and Triton, beside those that PyTorch makes of the same."""
