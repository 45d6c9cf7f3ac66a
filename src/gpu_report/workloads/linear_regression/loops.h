// The loops written by hand, from the slowest to the fastest: each trains for all epochs on a stream, and returns the first
// error of a CUDA call. `blocks` is the size of the grid; the result does not depend on it beyond rounding.

#pragma once

#include <cuda_runtime.h>

// One training. All pointers are to memory of the device; x and y are aligned to 16 bytes.
struct Training {
    const float* x;
    const float* y;
    long long points;
    float weight, bias;  // to begin with
    float learning_rate;
    int epochs;
    float* parameters;  // 2: weight and bias after training
    float* losses;      // one an epoch, before its update
    cudaStream_t stream;
};

// One loop: how it trains, and how many bytes of device memory it works in.
struct HandWritten {
    cudaError_t (*train)(const Training& training, int blocks, void* workspace);
    size_t (*workspace_bytes)(long long points, int blocks);
};

// How many points the persistent loop keeps on the chip; the others it reads again in every epoch.
cudaError_t points_kept(int blocks, long long* points);

extern const HandWritten SEPARATE, STREAMS, FUSED, SHARED, PERSISTENT, STATISTICS;
