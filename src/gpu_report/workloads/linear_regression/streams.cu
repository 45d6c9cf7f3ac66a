// The fused kernel on quarters of the points, each on a stream of its own.
//
// What it teaches: streams let kernels run side by side, and gain nothing where one of them fills the chip already. Each
// epoch waits for all quarters before the next may begin, which costs events and four launches instead of one.
// Streams and events are made by each training, which takes some of its time.

#include "fused.cuh"

namespace {

constexpr int QUARTERS = 4;

__global__ void __launch_bounds__(THREADS)
one_quarter(Training training, Workspace* workspace, int epoch, long long from, long long to, bool is_first) {
    const Parameters at = begin_epoch(training, workspace, epoch, is_first);
    const long long thread = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x;
    Sums<float> sums{};
    add_range(sums, at, training, from, to, thread, gridDim.x * static_cast<long long>(THREADS));
    const Sums<double> of_warp = warp_sum(Sums<double>{sums.squares, sums.weighted, sums.errors});
    if (threadIdx.x % WARP == 0) {
        add_atomically(&workspace->sums[epoch % 3][(thread / WARP) % PLACES], of_warp);
    }
}

// Streams of one training, with an event each to wait for; they end with it.
struct Streams {
    cudaStream_t streams[QUARTERS] = {};
    cudaEvent_t done[QUARTERS] = {};
    cudaEvent_t joined = nullptr;

    cudaError_t open() {
        RETURN_IF_FAILED(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
        for (int quarter = 0; quarter < QUARTERS; ++quarter) {
            RETURN_IF_FAILED(cudaStreamCreateWithFlags(&streams[quarter], cudaStreamNonBlocking));
            RETURN_IF_FAILED(cudaEventCreateWithFlags(&done[quarter], cudaEventDisableTiming));
        }
        return cudaSuccess;
    }

    // What is under way goes on: CUDA frees a stream once its work is done.
    ~Streams() {
        for (int quarter = 0; quarter < QUARTERS; ++quarter) {
            if (streams[quarter]) cudaStreamDestroy(streams[quarter]);
            if (done[quarter]) cudaEventDestroy(done[quarter]);
        }
        if (joined) cudaEventDestroy(joined);
    }
};

cudaError_t one_epoch(const Training& training, Workspace* workspace, int blocks, int epoch, Streams& use) {
    const long long quarter_of_points = (training.points / QUARTERS + 3) / 4 * 4;
    RETURN_IF_FAILED(cudaEventRecord(use.joined, training.stream));
    for (int quarter = 0; quarter < QUARTERS; ++quarter) {
        const long long from = min(training.points, quarter * quarter_of_points);
        const long long to = quarter == QUARTERS - 1 ? training.points : min(training.points, from + quarter_of_points);
        RETURN_IF_FAILED(cudaStreamWaitEvent(use.streams[quarter], use.joined, 0));
        one_quarter<<<(blocks + QUARTERS - 1) / QUARTERS, THREADS, 0, use.streams[quarter]>>>(
            training, workspace, epoch, from, to, quarter == 0);
        RETURN_IF_FAILED(cudaGetLastError());
        RETURN_IF_FAILED(cudaEventRecord(use.done[quarter], use.streams[quarter]));
        RETURN_IF_FAILED(cudaStreamWaitEvent(training.stream, use.done[quarter], 0));
    }
    return cudaSuccess;
}

cudaError_t train(const Training& training, int blocks, void* memory) {
    Streams streams;
    RETURN_IF_FAILED(streams.open());
    return train_by(training, memory, [&](Workspace* workspace, int epoch) {
        return one_epoch(training, workspace, blocks, epoch, streams);
    });
}

}  // namespace

const HandWritten STREAMS{train, workspace_bytes};
