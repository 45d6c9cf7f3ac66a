// The fused loop on a CPU: each point is read once an epoch, and nothing but three sums is kept.
//
// What it teaches: fusion pays on a CPU too. OpenMP gives each core a part of the points; the compiler makes vector
// instructions of the loop over a block of them, whose float sums are added up in float64, so that neither the number of
// threads nor that of points decides the digits.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

namespace {

constexpr int64_t BLOCK = 4096;

struct Sums {
    double squares = 0, weighted = 0, errors = 0;
};

Sums sum_of_block(const float* x, const float* y, int64_t points, float weight, float bias) {
    float squares = 0, weighted = 0, errors = 0;
#pragma omp simd reduction(+ : squares, weighted, errors)
    for (int64_t point = 0; point < points; ++point) {
        const float error = weight * x[point] + (bias - y[point]);
        squares += error * error;
        weighted += error * x[point];
        errors += error;
    }
    return {squares, weighted, errors};
}

Sums sum_of_all(const float* x, const float* y, int64_t points, float weight, float bias) {
    double squares = 0, weighted = 0, errors = 0;
#pragma omp parallel for schedule(static) num_threads(at::get_num_threads()) reduction(+ : squares, weighted, errors)
    for (int64_t begin = 0; begin < points; begin += BLOCK) {
        const Sums block = sum_of_block(x + begin, y + begin, std::min(BLOCK, points - begin), weight, bias);
        squares += block.squares;
        weighted += block.weighted;
        errors += block.errors;
    }
    return {squares, weighted, errors};
}

void check(const at::Tensor& values, const char* name) {
    TORCH_CHECK(values.is_cpu() && values.scalar_type() == at::kFloat && values.dim() == 1 && values.is_contiguous(),
                name, " is ", values.toString(), " of ", values.dim(),
                " dimensions; give a contiguous float32 tensor of one dimension on the CPU");
}

std::tuple<at::Tensor, at::Tensor> fused(const at::Tensor& x, const at::Tensor& y, double weight, double bias,
                                         double learning_rate, int64_t epochs) {
    check(x, "x");
    check(y, "y");
    TORCH_CHECK(x.numel() == y.numel() && x.numel() > 0, "x has ", x.numel(), " points and y ", y.numel(),
                "; give as many of both, at least one");
    TORCH_CHECK(epochs > 0, "epochs is ", epochs, "; give at least 1");
    const at::Tensor parameters = at::empty({2}, x.options()), losses = at::empty({epochs}, x.options());
    float at_weight = static_cast<float>(weight), at_bias = static_cast<float>(bias);
    const double points = static_cast<double>(x.numel()), scale = 2.0 * static_cast<float>(learning_rate) / points;
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
        const Sums sums = sum_of_all(x.const_data_ptr<float>(), y.const_data_ptr<float>(), x.numel(), at_weight, at_bias);
        losses.mutable_data_ptr<float>()[epoch] = static_cast<float>(sums.squares / points);
        at_weight = static_cast<float>(at_weight - scale * sums.weighted);
        at_bias = static_cast<float>(at_bias - scale * sums.errors);
    }
    parameters.mutable_data_ptr<float>()[0] = at_weight;
    parameters.mutable_data_ptr<float>()[1] = at_bias;
    return {parameters, losses};
}

}  // namespace

TORCH_LIBRARY(gpu_report_cpu, library) {
    library.def("fused(Tensor x, Tensor y, float weight, float bias, float learning_rate, int epochs) -> (Tensor, Tensor)",
                fused);
}
