// All epochs in one launch: the points are read once and stay on the chip, in registers and shared memory.
//
// What it teaches: what remains when launches and memory are gone. A block on each multiprocessor keeps its part of the
// points for good: each thread some in its registers, the block the next in shared memory; only what fits in neither is
// read from memory again in every epoch. Between two epochs every block has to know the sums of all others. Each writes
// its three sums to memory together with the number of the epoch, 16 bytes that come and go as one, and every block looks
// at the messages of all until they carry that number: they are barrier and data in one, so that an epoch waits for a
// single trip through the L2 cache. Two sets of messages in turn suffice: a block writes that of epoch e + 2 only after all
// have sent epoch e + 1, and who has sent that has read epoch e.
//
// It is launched cooperatively, so that all blocks run at once; otherwise the first would wait for others for ever.

#include "linear_regression.cuh"

namespace {

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / WARP;
constexpr int ROWS = 8;  // of four points that each thread keeps in registers: 64 of the 128 that it may have

// The sums of one block in one epoch, for the others; `stamp` is the number of the epoch, from 1 on.
struct alignas(16) Message {
    float squares, weighted, errors;
    unsigned stamp;
};

// Loads and stores of 16 bytes that no other thread of the device sees in part (PTX ISA, from 8.3 on).
__device__ void store_whole(Message* to, const Message& message) {
    const ulonglong2 halves = reinterpret_cast<const ulonglong2&>(message);
    asm volatile("{ .reg .b128 whole; mov.b128 whole, {%1, %2}; st.relaxed.gpu.global.b128 [%0], whole; }"
                 :
                 : "l"(to), "l"(halves.x), "l"(halves.y)
                 : "memory");
}

__device__ Message load_whole(const Message* from) {
    ulonglong2 halves;
    asm volatile("{ .reg .b128 whole; ld.relaxed.gpu.global.b128 whole, [%2]; mov.b128 {%0, %1}, whole; }"
                 : "=l"(halves.x), "=l"(halves.y)
                 : "l"(from)
                 : "memory");
    return reinterpret_cast<const Message&>(halves);
}

// How the points, in groups of four, are kept by the blocks.
struct Kept {
    long long fours;           // of all points
    int most_in_shared_memory;  // of a block
};

// What the block's own points add up to, in the threads of its first warp.
__device__ Sums<float> sum_of_block(Sums<float> sums, Sums<float>* per_warp) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const Sums<float> of_warp = warp_sum(sums);
    if (lane == 0) {
        per_warp[warp] = of_warp;
    }
    __syncthreads();
    return warp == 0 ? warp_sum(lane < WARPS ? per_warp[lane] : Sums<float>{}) : Sums<float>{};
}

// The sums of all blocks, in every thread; waits until each has sent its own.
__device__ Sums<double> receive(const Message* messages, unsigned stamp, Sums<float>* per_warp) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int senders = min((static_cast<int>(gridDim.x) + WARP - 1) / WARP, WARPS);
    if (warp < senders) {
        Sums<float> sums{};
        for (int block = threadIdx.x; block < gridDim.x; block += THREADS) {
            Message message;
            do {
                message = load_whole(messages + block);
            } while (message.stamp != stamp);
            sums.squares += message.squares;
            sums.weighted += message.weighted;
            sums.errors += message.errors;
        }
        sums = warp_sum(sums);
        if (lane == 0) {
            per_warp[warp] = sums;
        }
    }
    __syncthreads();
    Sums<double> total{};
    for (int sender = 0; sender < senders; ++sender) {
        total.squares += per_warp[sender].squares;
        total.weighted += per_warp[sender].weighted;
        total.errors += per_warp[sender].errors;
    }
    return total;
}

// The points of a block as one of its threads sees them: its own rows, those of all threads in shared memory, and the rest.
struct OwnPoints {
    float4 x[ROWS], y[ROWS];
    int rows, shared;
    float4 *shared_x, *shared_y;
    const float4 *all_x, *all_y;
    long long in_memory, last;

    // Read them once. Rows are whole: each thread has a group of four in it.
    __device__ __forceinline__ void keep(const Training& training, Kept kept, float4* room) {
        const long long first = kept.fours * blockIdx.x / gridDim.x;
        last = kept.fours * (blockIdx.x + 1) / gridDim.x;
        all_x = reinterpret_cast<const float4*>(training.x);
        all_y = reinterpret_cast<const float4*>(training.y);
        rows = static_cast<int>(min(static_cast<long long>(ROWS), (last - first) / THREADS));
        const long long after_rows = first + static_cast<long long>(rows) * THREADS;
        shared = static_cast<int>(min(static_cast<long long>(kept.most_in_shared_memory), last - after_rows));
        in_memory = after_rows + shared;
        shared_x = room;
        shared_y = room + kept.most_in_shared_memory;
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            if (row < rows) {
                x[row] = all_x[first + row * THREADS + threadIdx.x];
                y[row] = all_y[first + row * THREADS + threadIdx.x];
            }
        }
        for (int four = threadIdx.x; four < shared; four += THREADS) {
            shared_x[four] = all_x[after_rows + four];
            shared_y[four] = all_y[after_rows + four];
        }
        __syncthreads();
    }

    // What the thread's part of them adds up to.
    __device__ __forceinline__ Sums<float> sums(Parameters at) const {
        Sums<float> sums{}, others{};
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            if (row < rows) {
                add_four(sums, at, x[row], y[row]);
            }
        }
#pragma unroll 2
        for (int four = threadIdx.x; four < shared; four += THREADS) {
            add_four(others, at, shared_x[four], shared_y[four]);
        }
        for (long long four = in_memory + threadIdx.x; four < last; four += THREADS) {
            add_four(others, at, all_x[four], all_y[four]);
        }
        return {sums.squares + others.squares, sums.weighted + others.weighted, sums.errors + others.errors};
    }
};

__global__ void __launch_bounds__(THREADS, 1) all_epochs(Training training, Kept kept, Message* messages) {
    __shared__ Sums<float> of_own_warps[WARPS], of_all_blocks[WARPS];
    extern __shared__ float4 room[];
    OwnPoints points;
    points.keep(training, kept, room);
    const long long rest = 4 * kept.fours + threadIdx.x;  // of three points at most, which make no group of four
    Parameters at{training.weight, training.bias};
    for (int epoch = 0; epoch < training.epochs; ++epoch) {
        Sums<float> sums = points.sums(at);
        if (blockIdx.x == 0 && rest < training.points) {
            add_point(sums, at, training.x[rest], training.y[rest]);
        }
        const Sums<float> own = sum_of_block(sums, of_own_warps);
        const unsigned stamp = epoch + 1;
        Message* of_epoch = messages + epoch % 2 * gridDim.x;
        if (threadIdx.x == 0) {
            store_whole(of_epoch + blockIdx.x, {own.squares, own.weighted, own.errors, stamp});
        }
        const Sums<double> total = receive(of_epoch, stamp, of_all_blocks);
        at = stepped(at, total, training);
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            training.losses[epoch] = mean_square(total, training);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        training.parameters[0] = at.weight;
        training.parameters[1] = at.bias;
    }
}

size_t workspace_bytes(long long, int blocks) { return 2 * blocks * sizeof(Message); }

// Shared memory of a block, and how many points of it are kept there.
cudaError_t plan(const Training& training, int blocks, Kept* kept, size_t* bytes) {
    int device = 0, most_bytes = 0;
    cudaFuncAttributes attributes{};
    RETURN_IF_FAILED(cudaGetDevice(&device));
    RETURN_IF_FAILED(cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    RETURN_IF_FAILED(cudaFuncGetAttributes(&attributes, all_epochs));
    const size_t for_points = most_bytes - attributes.sharedSizeBytes;
    kept->fours = training.points / 4;
    const long long of_block = (kept->fours + blocks - 1) / blocks;
    kept->most_in_shared_memory = static_cast<int>(min(of_block, static_cast<long long>(for_points / (2 * sizeof(float4)))));
    *bytes = 2 * sizeof(float4) * kept->most_in_shared_memory;
    return cudaFuncSetAttribute(all_epochs, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(*bytes));
}

cudaError_t train(const Training& training, int blocks, void* workspace) {
    Message* messages = static_cast<Message*>(workspace);
    Kept kept{};
    size_t bytes = 0;
    RETURN_IF_FAILED(plan(training, blocks, &kept, &bytes));
    // None carries the number of an epoch yet.
    RETURN_IF_FAILED(cudaMemsetAsync(messages, 0, workspace_bytes(training.points, blocks), training.stream));
    Training asked = training;
    void* arguments[] = {&asked, &kept, &messages};
    return cudaLaunchCooperativeKernel(all_epochs, dim3(blocks), dim3(THREADS), arguments, bytes, training.stream);
}

}  // namespace

cudaError_t points_kept(int blocks, long long* points) {
    constexpr long long in_registers = 4LL * ROWS * THREADS;
    Training endless{};
    endless.points = 1LL << 50;
    Kept kept{};
    size_t bytes = 0;
    RETURN_IF_FAILED(plan(endless, blocks, &kept, &bytes));
    *points = blocks * (in_registers + 4LL * kept.most_in_shared_memory);
    return cudaSuccess;
}

const HandWritten PERSISTENT{train, workspace_bytes};
