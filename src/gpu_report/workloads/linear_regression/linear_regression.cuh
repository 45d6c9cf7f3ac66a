// What the kernels of linear regression share: the training asked for, sums over the points, and the step of the parameters.
//
// One epoch of gradient descent on y = w x + b with the mean squared error:
//   error_i = w x_i + b - y_i,  loss = mean(error^2),  w -= rate * 2 mean(error x),  b -= rate * 2 mean(error)

#pragma once

#include <cuda_runtime.h>

#include "loops.h"

#define RETURN_IF_FAILED(call)                       \
    do {                                             \
        const cudaError_t status_of_call = (call);   \
        if (status_of_call != cudaSuccess) {         \
            return status_of_call;                   \
        }                                            \
    } while (0)

// Sums over points: of error^2, error * x, and error.
template <typename Number>
struct Sums {
    Number squares, weighted, errors;
};

struct Parameters {
    float weight, bias;
};

constexpr int WARP = 32;

template <typename Number>
__device__ inline void add_point(Sums<Number>& sums, Parameters at, float x, float y) {
    const float error = fmaf(at.weight, x, at.bias - y);
    sums.squares += error * error;
    sums.weighted += error * x;
    sums.errors += error;
}

__device__ inline void add_four(Sums<float>& sums, Parameters at, float4 x, float4 y) {
    add_point(sums, at, x.x, y.x);
    add_point(sums, at, x.y, y.y);
    add_point(sums, at, x.z, y.z);
    add_point(sums, at, x.w, y.w);
}

// The points of [begin, end) that thread `first` of `threads` takes; begin is a multiple of 4. Loads of 16 bytes, two of
// each array under way at a time.
__device__ inline void add_range(Sums<float>& sums, Parameters at, const Training& training, long long begin,
                                 long long end, long long first, long long threads) {
    const float4* x = reinterpret_cast<const float4*>(training.x + begin);
    const float4* y = reinterpret_cast<const float4*>(training.y + begin);
    const long long fours = (end - begin) / 4;
    Sums<float> others{};
    long long position = first;
    for (; position + threads < fours; position += 2 * threads) {
        const float4 x1 = x[position], x2 = x[position + threads], y1 = y[position], y2 = y[position + threads];
        add_four(sums, at, x1, y1);
        add_four(others, at, x2, y2);
    }
    if (position < fours) {
        add_four(sums, at, x[position], y[position]);
    }
    const long long rest = begin + 4 * fours + first;
    if (rest < end) {
        add_point(sums, at, training.x[rest], training.y[rest]);
    }
    sums.squares += others.squares;
    sums.weighted += others.weighted;
    sums.errors += others.errors;
}

// The sum over the threads of a warp, in each of them.
template <typename Number>
__device__ inline Sums<Number> warp_sum(Sums<Number> sums) {
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        sums.squares += __shfl_xor_sync(0xffffffffu, sums.squares, distance);
        sums.weighted += __shfl_xor_sync(0xffffffffu, sums.weighted, distance);
        sums.errors += __shfl_xor_sync(0xffffffffu, sums.errors, distance);
    }
    return sums;
}

// The sum over the threads of a block, in the threads of its first warp; `per_warp` is shared memory for 32 of them.
__device__ inline Sums<double> block_sum(Sums<float> sums, Sums<double>* per_warp) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = (blockDim.x + WARP - 1) / WARP;
    const Sums<double> wide{sums.squares, sums.weighted, sums.errors};
    const Sums<double> of_warp = warp_sum(wide);
    if (lane == 0) {
        per_warp[warp] = of_warp;
    }
    __syncthreads();
    return warp == 0 ? warp_sum(lane < warps ? per_warp[lane] : Sums<double>{}) : Sums<double>{};
}

__device__ inline void add_atomically(Sums<double>* total, Sums<double> sums) {
    atomicAdd(&total->squares, sums.squares);
    atomicAdd(&total->weighted, sums.weighted);
    atomicAdd(&total->errors, sums.errors);
}

// The parameters after a step down the gradient that the sums over all points make.
__device__ inline Parameters stepped(Parameters from, Sums<double> sums, const Training& training) {
    const double scale = 2.0 * training.learning_rate / static_cast<double>(training.points);
    return {static_cast<float>(from.weight - scale * sums.weighted),
            static_cast<float>(from.bias - scale * sums.errors)};
}

__device__ inline float mean_square(Sums<double> sums, const Training& training) {
    return static_cast<float>(sums.squares / static_cast<double>(training.points));
}
