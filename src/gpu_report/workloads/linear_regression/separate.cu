// One kernel for each thing to do, as one would first write it: forward, loss, gradient, update.
//
// What it teaches: every kernel reads its operands from memory and writes its result back there, although the next one
// needs it at once. An epoch moves 28 bytes a point where 8 (x and y, once) would do, and is launched four times.

#include "linear_regression.cuh"

namespace {

constexpr int THREADS = 256;

__global__ void begin(Training training, Sums<double>* total) {
    training.parameters[0] = training.weight;
    training.parameters[1] = training.bias;
    *total = {};
}

__global__ void forward(Training training, float* predictions) {
    const long long point = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x;
    if (point < training.points) {
        predictions[point] = fmaf(training.parameters[0], training.x[point], training.parameters[1]);
    }
}

__global__ void loss(Training training, const float* predictions, float* errors, Sums<double>* total) {
    __shared__ Sums<double> per_warp[WARP];
    const long long threads = gridDim.x * static_cast<long long>(THREADS);
    Sums<float> sums{};
    for (long long point = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x; point < training.points;
         point += threads) {
        const float error = predictions[point] - training.y[point];
        errors[point] = error;
        sums.squares += error * error;
    }
    const Sums<double> of_block = block_sum(sums, per_warp);
    if (threadIdx.x == 0) {
        atomicAdd(&total->squares, of_block.squares);
    }
}

__global__ void gradient(Training training, const float* errors, Sums<double>* total) {
    __shared__ Sums<double> per_warp[WARP];
    const long long threads = gridDim.x * static_cast<long long>(THREADS);
    Sums<float> sums{};
    for (long long point = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x; point < training.points;
         point += threads) {
        sums.weighted += errors[point] * training.x[point];
        sums.errors += errors[point];
    }
    const Sums<double> of_block = block_sum(sums, per_warp);
    if (threadIdx.x == 0) {
        atomicAdd(&total->weighted, of_block.weighted);
        atomicAdd(&total->errors, of_block.errors);
    }
}

__global__ void update(Training training, Sums<double>* total, int epoch) {
    const Parameters next = stepped({training.parameters[0], training.parameters[1]}, *total, training);
    training.losses[epoch] = mean_square(*total, training);
    training.parameters[0] = next.weight;
    training.parameters[1] = next.bias;
    *total = {};
}

cudaError_t train(const Training& training, int blocks, void* workspace) {
    Sums<double>* total = static_cast<Sums<double>*>(workspace);
    float* predictions = reinterpret_cast<float*>(total + 1);
    float* errors = predictions + training.points;
    const int all = static_cast<int>((training.points + THREADS - 1) / THREADS);
    begin<<<1, 1, 0, training.stream>>>(training, total);
    RETURN_IF_FAILED(cudaGetLastError());
    for (int epoch = 0; epoch < training.epochs; ++epoch) {
        forward<<<all, THREADS, 0, training.stream>>>(training, predictions);
        RETURN_IF_FAILED(cudaGetLastError());
        loss<<<blocks, THREADS, 0, training.stream>>>(training, predictions, errors, total);
        RETURN_IF_FAILED(cudaGetLastError());
        gradient<<<blocks, THREADS, 0, training.stream>>>(training, errors, total);
        RETURN_IF_FAILED(cudaGetLastError());
        update<<<1, 1, 0, training.stream>>>(training, total, epoch);
        RETURN_IF_FAILED(cudaGetLastError());
    }
    return cudaSuccess;
}

size_t workspace_bytes(long long points, int) { return sizeof(Sums<double>) + 2 * points * sizeof(float); }

}  // namespace

const HandWritten SEPARATE{train, workspace_bytes};
