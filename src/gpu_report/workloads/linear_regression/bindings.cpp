// The loops as operators of PyTorch: tensors in, tensors out, the first error of a CUDA call as an exception.

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <cstdint>
#include <tuple>

#include "loops.h"

namespace {

using Trained = std::tuple<at::Tensor, at::Tensor>;

void check(const at::Tensor& values, const char* name) {
    TORCH_CHECK(values.is_cuda() && values.scalar_type() == at::kFloat && values.dim() == 1 && values.is_contiguous(),
                name, " is ", values.toString(), " of ", values.dim(),
                " dimensions; give a contiguous float32 tensor of one dimension on a CUDA device");
    TORCH_CHECK(reinterpret_cast<std::uintptr_t>(values.const_data_ptr()) % 16 == 0, name,
                " does not begin at a multiple of 16 bytes; give a tensor of its own instead of a part of another");
}

// Learns weight and bias by one of the loops; returns them, and the loss before each epoch's update.
template <const HandWritten& loop>
Trained train(const at::Tensor& x, const at::Tensor& y, double weight, double bias, double learning_rate, int64_t epochs,
              int64_t blocks) {
    check(x, "x");
    check(y, "y");
    TORCH_CHECK(x.numel() == y.numel() && x.numel() > 0, "x has ", x.numel(), " points and y ", y.numel(),
                "; give as many of both, at least one");
    TORCH_CHECK(x.device() == y.device(), "x is on ", x.device(), " and y on ", y.device(), "; give both on one device");
    TORCH_CHECK(epochs > 0 && blocks > 0, "epochs is ", epochs, " and blocks ", blocks, "; give at least 1 of both");
    const c10::cuda::CUDAGuard guard(x.device());
    const int64_t bytes = static_cast<int64_t>(loop.workspace_bytes(x.numel(), static_cast<int>(blocks)));
    const at::Tensor parameters = at::empty({2}, x.options()), losses = at::empty({epochs}, x.options());
    const at::Tensor workspace = at::empty({bytes}, x.options().dtype(at::kByte));
    const Training training{x.const_data_ptr<float>(),
                            y.const_data_ptr<float>(),
                            x.numel(),
                            static_cast<float>(weight),
                            static_cast<float>(bias),
                            static_cast<float>(learning_rate),
                            static_cast<int>(epochs),
                            parameters.mutable_data_ptr<float>(),
                            losses.mutable_data_ptr<float>(),
                            at::cuda::getCurrentCUDAStream()};
    C10_CUDA_CHECK(loop.train(training, static_cast<int>(blocks), workspace.mutable_data_ptr()));
    return {parameters, losses};
}

// Of the device in use.
int64_t kept(int64_t blocks) {
    long long points = 0;
    C10_CUDA_CHECK(points_kept(static_cast<int>(blocks), &points));
    return points;
}

}  // namespace

#define ARGUMENTS \
    "(Tensor x, Tensor y, float weight, float bias, float learning_rate, int epochs, int blocks) -> (Tensor, Tensor)"

TORCH_LIBRARY(gpu_report_cuda, library) {
    library.def("separate" ARGUMENTS, train<SEPARATE>);
    library.def("streams" ARGUMENTS, train<STREAMS>);
    library.def("fusedstep" ARGUMENTS, train<FUSED>);
    library.def("sharedsums" ARGUMENTS, train<SHARED>);
    library.def("persistent" ARGUMENTS, train<PERSISTENT>);
    library.def("persistent_points_kept(int blocks) -> int", kept);
    library.def("statistics" ARGUMENTS, train<STATISTICS>);
}
