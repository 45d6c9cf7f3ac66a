// How an epoch of one launch begins: with the step of the parameters from the sums that the launch before left behind.

#pragma once

#include "linear_regression.cuh"

namespace {

constexpr int THREADS = 256;
constexpr int PLACES = WARP;

// Three sets of sums in turn: one is read, one written, one cleared for the epoch after. Parameters change places as well,
// since blocks of one launch still read the old ones when the first writes the new.
struct Workspace {
    Sums<double> sums[3][PLACES];
    Parameters parameters[2];
};

__global__ void begin(Training training, Workspace* workspace) {
    for (auto& places : workspace->sums) {
        places[threadIdx.x] = {};
    }
    workspace->parameters[0] = workspace->parameters[1] = {training.weight, training.bias};
}

// What the epoch begins with; every warp works it out alike. The first block notes it, and the loss of the epoch before,
// and clears the sums of the epoch after; of several launches for one epoch the one that is first.
__device__ inline Parameters begin_epoch(const Training& training, Workspace* workspace, int epoch, bool is_first = true) {
    const bool notes = is_first && blockIdx.x == 0;
    const int lane = threadIdx.x % WARP;
    Parameters at = workspace->parameters[epoch % 2];
    if (epoch > 0) {
        const Sums<double> before = warp_sum(workspace->sums[(epoch - 1) % 3][lane]);
        at = stepped(at, before, training);
        if (notes && threadIdx.x == 0) {
            training.losses[epoch - 1] = mean_square(before, training);
            workspace->parameters[(epoch + 1) % 2] = at;
        }
    }
    if (notes && threadIdx.x < PLACES) {
        workspace->sums[(epoch + 1) % 3][threadIdx.x] = {};
    }
    return at;
}

__global__ void end(Training training, Workspace* workspace) {
    const Parameters at = begin_epoch(training, workspace, training.epochs);
    if (threadIdx.x == 0) {
        training.parameters[0] = at.weight;
        training.parameters[1] = at.bias;
    }
}

// The whole training; `launch_epoch(workspace, epoch)` launches one epoch and returns the first error of a CUDA call.
template <typename LaunchEpoch>
cudaError_t train_by(const Training& training, void* memory, LaunchEpoch launch_epoch) {
    Workspace* workspace = static_cast<Workspace*>(memory);
    begin<<<1, PLACES, 0, training.stream>>>(training, workspace);
    RETURN_IF_FAILED(cudaGetLastError());
    for (int epoch = 0; epoch < training.epochs; ++epoch) {
        RETURN_IF_FAILED(launch_epoch(workspace, epoch));
    }
    end<<<1, PLACES, 0, training.stream>>>(training, workspace);
    return cudaGetLastError();
}

size_t workspace_bytes(long long, int) { return sizeof(Workspace); }

}  // namespace
