// A stand-in for NCCL (libnccl.so.2): ranks in processes of one machine meet in shared memory, those of one process in a group of calls.
// As in NCCL, a rank waits for the others until they come or the communicator is aborted.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

// What of nccl.h is needed; NCCL keeps these numbers.
enum ncclResult_t { ncclSuccess = 0, ncclSystemError = 2, ncclInvalidUsage = 5, ncclRemoteError = 6 };
enum ncclRedOp_t { ncclSum = 0, ncclMax = 2, ncclMin = 3 };
enum ncclDataType_t {
    ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16
};
struct ncclUniqueId {
    char internal[128];
};
using ncclComm_t = struct ncclComm *;
using Stream = void *;
constexpr int VERSION = 23007;

namespace {

constexpr size_t SLOT = 16 << 20;  // bytes of each rank that are exchanged at once
constexpr size_t HEAD = 4096;
constexpr useconds_t LOOKS_US = 50;

struct Meeting {
    std::atomic<int> joined, arrived, round, aborted;
};

enum Kind { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE };

}  // namespace

struct ncclComm {
    int rank;
    int size;
    int together;                 // the same for all communicators that one process made at once
    Meeting *meeting = nullptr;   // `nullptr` where all ranks are in this process
    char *slots = nullptr;
    std::atomic<bool> aborted{false};
    std::atomic<ncclResult_t> error{ncclSuccess};
};

namespace {

struct Call {
    Kind kind;
    const void *from;
    void *to;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t how;
    int root;
    ncclComm *comm;
};

thread_local int depth = 0;
thread_local std::vector<Call> pending;

size_t width(ncclDataType_t type) {
    switch (type) {
        case ncclInt8: case ncclUint8: return 1;
        case ncclFloat16: case ncclBfloat16: return 2;
        case ncclInt64: case ncclUint64: case ncclFloat64: return 8;
        default: return 4;
    }
}

template <class Number>
void fold(void *into, const void *from, size_t count, ncclRedOp_t how) {
    Number *mine = static_cast<Number *>(into);
    const Number *theirs = static_cast<const Number *>(from);
    for (size_t each = 0; each < count; each++) {
        if (how == ncclMax) mine[each] = std::max(mine[each], theirs[each]);
        else if (how == ncclMin) mine[each] = std::min(mine[each], theirs[each]);
        else mine[each] += theirs[each];
    }
}

bool fold_any(void *into, const void *from, size_t count, ncclDataType_t type, ncclRedOp_t how) {
    if (how != ncclSum && how != ncclMax && how != ncclMin) return false;
    switch (type) {
        case ncclFloat32: return fold<float>(into, from, count, how), true;
        case ncclFloat64: return fold<double>(into, from, count, how), true;
        case ncclInt64: return fold<long>(into, from, count, how), true;
        case ncclInt32: return fold<int>(into, from, count, how), true;
        case ncclUint8: return fold<unsigned char>(into, from, count, how), true;
        default: return false;
    }
}

bool meet(ncclComm *comm) {
    Meeting *meeting = comm->meeting;
    int round = meeting->round;
    if (++meeting->arrived == comm->size) {
        meeting->arrived = 0;
        ++meeting->round;
        return true;
    }
    while (meeting->round == round) {
        if (comm->aborted || meeting->aborted) return false;
        usleep(LOOKS_US);
    }
    return true;
}

ncclResult_t across_processes(const Call &call) {
    ncclComm *comm = call.comm;
    size_t wide = width(call.type), most = SLOT / wide;
    std::vector<char> sum;
    for (size_t begin = 0; begin < call.count; begin += most) {
        size_t count = std::min(call.count - begin, most), bytes = count * wide;
        char *to = static_cast<char *>(call.to) + begin * wide;
        memcpy(comm->slots + SLOT * comm->rank, static_cast<const char *>(call.from) + begin * wide, bytes);
        if (!meet(comm)) return ncclRemoteError;
        if (call.kind == BROADCAST) memcpy(to, comm->slots + SLOT * call.root, bytes);
        for (int rank = 0; rank < comm->size && call.kind == ALL_GATHER; rank++)
            memcpy(to + rank * call.count * wide, comm->slots + SLOT * rank, bytes);
        if (call.kind == ALL_REDUCE || (call.kind == REDUCE && comm->rank == call.root)) {
            sum.assign(comm->slots, comm->slots + bytes);
            for (int rank = 1; rank < comm->size; rank++)
                if (!fold_any(sum.data(), comm->slots + SLOT * rank, count, call.type, call.how)) return ncclInvalidUsage;
            memcpy(to, sum.data(), bytes);
        }
        if (!meet(comm)) return ncclRemoteError;
    }
    return ncclSuccess;
}

ncclResult_t within_process(const std::vector<Call> &calls) {
    const Call &first = calls[0];
    size_t bytes = first.count * width(first.type);
    std::vector<char> made(bytes);
    for (const Call &call : calls) {
        bool begins = call.comm == first.comm, root = call.comm->rank == call.root;
        if (call.kind == BROADCAST ? root : begins) memcpy(made.data(), call.from, bytes);
        else if (call.kind != BROADCAST && !fold_any(made.data(), call.from, call.count, call.type, call.how)) return ncclInvalidUsage;
    }
    for (const Call &call : calls)
        if (call.kind != REDUCE || call.comm->rank == call.root) memcpy(call.to, made.data(), bytes);
    return ncclSuccess;
}

ncclResult_t do_pending() {
    std::vector<Call> left = std::exchange(pending, {});
    while (!left.empty()) {
        Call first = left[0];
        ncclResult_t result;
        if (first.comm->meeting) {
            result = across_processes(first);
            left.erase(left.begin());
        } else {
            // One call of each of the ranks, which follow each other in any order.
            std::vector<Call> together, others;
            for (const Call &call : left) {
                bool fits = call.comm->together == first.comm->together && call.kind == first.kind;
                for (const Call &other : together) fits = fits && other.comm != call.comm;
                (fits ? together : others).push_back(call);
            }
            result = within_process(together);
            left = others;
        }
        if (result != ncclSuccess) return first.comm->error = result;
    }
    return ncclSuccess;
}

ncclResult_t ask(const Call &call) {
    pending.push_back(call);
    return depth ? ncclSuccess : do_pending();
}

int next() {
    static std::atomic<int> count{0};
    return ++count;
}

}  // namespace

EXPORT ncclResult_t ncclGetVersion(int *version) { return *version = VERSION, ncclSuccess; }

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    *id = {};
    snprintf(id->internal, sizeof id->internal, "cuda-standin-%d-%d", getpid(), next());
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *made, int size, ncclUniqueId id, int rank) {
    std::string path = std::string("/dev/shm/") + id.internal;
    int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, HEAD + SLOT * size)) return ncclSystemError;
    void *memory = mmap(nullptr, HEAD + SLOT * size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return ncclSystemError;
    ncclComm *comm = new ncclComm{rank, size, next()};
    comm->meeting = static_cast<Meeting *>(memory);
    comm->slots = static_cast<char *>(memory) + HEAD;
    ++comm->meeting->joined;
    while (comm->meeting->joined < size) usleep(LOOKS_US);
    unlink(path.c_str());
    *made = comm;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *made, int size, ncclUniqueId id, int rank, void *) {
    return ncclCommInitRank(made, size, id, rank);
}

EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *made, int size, int rank, int, ncclUniqueId *ids, void *) {
    return ncclCommInitRank(made, size, ids[0], rank);
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *made, int size, const int *) {
    int together = next();
    for (int rank = 0; rank < size; rank++) made[rank] = new ncclComm{rank, size, together};
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
    comm->aborted = true;
    if (comm->meeting) comm->meeting->aborted = 1;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }
EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) { return *count = comm->size, ncclSuccess; }
EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) { return *rank = comm->rank, ncclSuccess; }
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) { return *error = comm->error, ncclSuccess; }
EXPORT const char *ncclGetLastError(ncclComm_t) { return ""; }

EXPORT const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclSuccess ? "no error" : result == ncclRemoteError ? "remote process exited or there was a network error" : "unhandled system error";
}

EXPORT ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
EXPORT ncclResult_t ncclGroupEnd() { return --depth ? ncclSuccess : do_pending(); }

EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t how, ncclComm_t comm, Stream) {
    return ask({ALL_REDUCE, from, to, count, type, how, 0, comm});
}

EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm, Stream) {
    return ask({BROADCAST, comm->rank == root ? from : to, to, count, type, ncclSum, root, comm});
}

EXPORT ncclResult_t ncclBcast(void *all, size_t count, ncclDataType_t type, int root, ncclComm_t comm, Stream) {
    return ask({BROADCAST, all, all, count, type, ncclSum, root, comm});
}

EXPORT ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm, Stream) {
    return ask({ALL_GATHER, from, to, count, type, ncclSum, 0, comm});
}

EXPORT ncclResult_t ncclReduce(
    const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t how, int root, ncclComm_t comm, Stream) {
    return ask({REDUCE, from, to, count, type, how, root, comm});
}

// Memory that a communicator knows is sent faster on a real one.
EXPORT ncclResult_t ncclCommRegister(ncclComm_t, void *, size_t, void **handle) { return *handle = nullptr, ncclSuccess; }
EXPORT ncclResult_t ncclCommDeregister(ncclComm_t, void *) { return ncclSuccess; }

// The parameters do not matter to a function that looks at none of them.
#define NOT_SUPPORTED(name) \
    EXPORT int standin_##name() __asm__(#name); \
    int standin_##name() { return ncclInvalidUsage; }

NOT_SUPPORTED(ncclAlltoAll)
NOT_SUPPORTED(ncclCommGetUniqueId)
NOT_SUPPORTED(ncclCommGrow)
NOT_SUPPORTED(ncclCommMemStats)
NOT_SUPPORTED(ncclCommResume)
NOT_SUPPORTED(ncclCommRevoke)
NOT_SUPPORTED(ncclCommShrink)
NOT_SUPPORTED(ncclCommSplit)
NOT_SUPPORTED(ncclCommSuspend)
NOT_SUPPORTED(ncclCommWindowDeregister)
NOT_SUPPORTED(ncclCommWindowRegister)
NOT_SUPPORTED(ncclDevCommCreate)
NOT_SUPPORTED(ncclDevCommDestroy)
NOT_SUPPORTED(ncclGather)
NOT_SUPPORTED(ncclGetLsaMultimemDevicePointer)
NOT_SUPPORTED(ncclGetPeerDevicePointer)
NOT_SUPPORTED(ncclGroupSimulateEnd)
NOT_SUPPORTED(ncclMemAlloc)
NOT_SUPPORTED(ncclMemFree)
NOT_SUPPORTED(ncclPutSignal)
NOT_SUPPORTED(ncclRecv)
NOT_SUPPORTED(ncclRedOpCreatePreMulSum)
NOT_SUPPORTED(ncclRedOpDestroy)
NOT_SUPPORTED(ncclReduceScatter)
NOT_SUPPORTED(ncclSend)
NOT_SUPPORTED(ncclSignal)
NOT_SUPPORTED(ncclWaitSignal)
NOT_SUPPORTED(ncclWinGetUserPtr)
