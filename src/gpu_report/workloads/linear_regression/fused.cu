// One kernel an epoch: each point is read once, and nothing but three sums is written.
//
// What it teaches: fusion. Prediction and error live in registers between the operations that need them, so that an epoch
// moves 8 bytes a point. The threads of a warp add up by shuffles; each warp then adds its sums to one of 32 places in
// memory atomically, which the warps of a grid so seldom want at once. The step of the parameters needs no kernel of its
// own: each warp of the next launch makes it for itself, from the sums that the launch before left behind.

#include "fused.cuh"

namespace {

__global__ void __launch_bounds__(THREADS) one_epoch(Training training, Workspace* workspace, int epoch) {
    const Parameters at = begin_epoch(training, workspace, epoch);
    const long long thread = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x;
    Sums<float> sums{};
    add_range(sums, at, training, 0, training.points, thread, gridDim.x * static_cast<long long>(THREADS));
    const Sums<double> of_warp = warp_sum(Sums<double>{sums.squares, sums.weighted, sums.errors});
    if (threadIdx.x % WARP == 0) {
        add_atomically(&workspace->sums[epoch % 3][(thread / WARP) % PLACES], of_warp);
    }
}

cudaError_t train(const Training& training, int blocks, void* memory) {
    return train_by(training, memory, [&training, blocks](Workspace* workspace, int epoch) {
        one_epoch<<<blocks, THREADS, 0, training.stream>>>(training, workspace, epoch);
        return cudaGetLastError();
    });
}

}  // namespace

const HandWritten FUSED{train, workspace_bytes};
