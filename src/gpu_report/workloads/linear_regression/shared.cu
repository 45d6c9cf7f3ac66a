// The fused kernel with one more step of adding up: in shared memory, for a whole block.
//
// What it teaches: where sums meet. The warps of a block meet in shared memory, so that a block wants the places in memory
// once instead of once a warp. With as few warps as fill the chip it hardly matters any more; with one atomic addition a
// thread it would be everything.

#include "fused.cuh"

namespace {

__global__ void __launch_bounds__(THREADS) one_epoch(Training training, Workspace* workspace, int epoch) {
    __shared__ Sums<double> per_warp[WARP];
    const Parameters at = begin_epoch(training, workspace, epoch);
    const long long thread = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x;
    Sums<float> sums{};
    add_range(sums, at, training, 0, training.points, thread, gridDim.x * static_cast<long long>(THREADS));
    const Sums<double> of_block = block_sum(sums, per_warp);
    if (threadIdx.x == 0) {
        add_atomically(&workspace->sums[epoch % 3][blockIdx.x % PLACES], of_block);
    }
}

cudaError_t train(const Training& training, int blocks, void* memory) {
    return train_by(training, memory, [&training, blocks](Workspace* workspace, int epoch) {
        one_epoch<<<blocks, THREADS, 0, training.stream>>>(training, workspace, epoch);
        return cudaGetLastError();
    });
}

}  // namespace

const HandWritten SHARED{train, workspace_bytes};
