// A stand-in for CUDA's runtime (libcudart.so.13, or .12), with what torch asks of it.
//
// Device memory is host memory. What is put into a stream is done at once, but for copies to pinned memory, which land a moment later. A
// recording is a list of what to do again. Kernels do nothing: hook/cuda_operators.py computes what torch's operators would have launched.
//
//   STANDIN_DEVICES  how many cards there are (2)
//   STANDIN_MEMORY   bytes of each (2 GiB)
//   STANDIN_BROKEN   a file: once it exists each card answers with the error of a kernel that went wrong, as a real one does from then on
//   STANDIN_HELD     a folder that the stand-in for NVML looks into for what each process holds
//   STANDIN_LAUNCHES a file that gets the names of the kernels that were launched, and so did nothing

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Work = std::function<void()>;

constexpr int MOST_DEVICES = 16;
constexpr double LANDING_MS = 3.0;

struct Graph {
    unsigned long long id;
    std::vector<Work> work;
    bool invalid;
};

struct Stream {
    int device = 0;
    int priority = 0;
    Graph *recorded = nullptr;   // what its work goes into
    bool began = false;          // it began that recording
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    unsigned long thread = 0;    // which began it
    std::deque<std::pair<double, Work>> landing;
    unsigned long landed = 0;
};

struct Event {
    int device = 0;
    bool timed = false;
    double at = -1.0;
    Graph *recorded = nullptr;
    Stream *stream = nullptr;
    unsigned long after = 0;     // so many landings of its stream come before it
};

enum Kind { DEVICE, HOST };

struct Block {
    size_t size;
    int device;
    Kind kind;
};

std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;

std::vector<int> visible;
size_t memory = 2ULL << 30;
size_t used[MOST_DEVICES];
bool has_context[MOST_DEVICES];
const size_t CONTEXT = 64 << 20;  // what a context takes, as NVML sees it
Stream default_streams[MOST_DEVICES];
std::set<Stream *> recording;
unsigned long long graphs = 0;
std::map<char *, Block> blocks;
std::map<const void *, std::string> kernels;
std::set<std::string> launched;

thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
thread_local unsigned long thread_id = 0;

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

unsigned long this_thread() {
    static unsigned long threads = 0;
    Lock lock(mutex);
    if (!thread_id) thread_id = ++threads;
    return thread_id;
}

bool broken() {
    static const char *path = getenv("STANDIN_BROKEN");
    static bool is = false;
    if (!is && path) is = access(path, F_OK) == 0;
    return is;
}

cudaError_t failed(cudaError_t error) {
    last = error;
    return error;
}

cudaError_t done() { return broken() ? failed(cudaErrorLaunchFailure) : cudaSuccess; }

void forget_held() {
    if (const char *folder = getenv("STANDIN_HELD")) unlink((folder + ("/" + std::to_string(getpid()))).c_str());
}

void tell_launched() {
    const char *path = getenv("STANDIN_LAUNCHES");
    FILE *file = path && !launched.empty() ? fopen(path, "a") : nullptr;
    if (!file) return;
    for (const auto &name : launched) fprintf(file, "%s\n", name.c_str());
    fclose(file);
}

void start() {
    static std::once_flag once;
    std::call_once(once, [] {
        const char *devices = getenv("STANDIN_DEVICES"), *bytes = getenv("STANDIN_MEMORY"), *shown = getenv("CUDA_VISIBLE_DEVICES");
        int count = devices ? atoi(devices) : 2;
        if (bytes) memory = strtoull(bytes, nullptr, 10);
        if (!shown) {
            for (int each = 0; each < count; each++) visible.push_back(each);
        } else {
            // The first one that is not there ends the list, as in CUDA.
            while (*shown) {
                char *end;
                long number = strtol(shown, &end, 10);
                if (end == shown || number < 0 || number >= count) break;
                visible.push_back(static_cast<int>(number));
                shown = *end == ',' ? end + 1 : end;
            }
        }
        atexit(tell_launched);
        atexit(forget_held);
    });
}

bool is_there(int device) {
    start();
    return 0 <= device && device < static_cast<int>(visible.size());
}

Stream *stream_of(cudaStream_t stream) {
    if (stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread) return reinterpret_cast<Stream *>(stream);
    default_streams[current].device = current;
    return &default_streams[current];
}

// Tell the stand-in for NVML what this process holds of each card.
void tell_held() {
    static const char *folder = getenv("STANDIN_HELD");
    if (!folder) return;
    std::string path = folder + ("/" + std::to_string(getpid())), making = path + ".new";
    FILE *file = fopen(making.c_str(), "w");
    if (!file) return;
    for (size_t each = 0; each < visible.size(); each++)
        if (has_context[each]) fprintf(file, "%d %zu\n", visible[each], used[each] + CONTEXT);
    fclose(file);
    rename(making.c_str(), path.c_str());
}

void make_context(int device) {
    Lock lock(mutex);
    if (has_context[device]) return;
    has_context[device] = true;
    tell_held();
}

// Whether what is asked for would spoil a recording: one of any thread in global mode, one of this thread in the mode of threads.
bool spoils() {
    Lock lock(mutex);
    if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
    for (Stream *stream : recording) {
        if (!stream->began || stream->mode == cudaStreamCaptureModeRelaxed) continue;
        if (stream->mode == cudaStreamCaptureModeGlobal || stream->thread == this_thread()) {
            stream->recorded->invalid = true;
            return true;
        }
    }
    return false;
}

void land(Stream *stream, bool all) {
    while (!stream->landing.empty() && (all || stream->landing.front().first <= now())) {
        Work work = stream->landing.front().second;
        stream->landing.pop_front();
        stream->landed++;
        work();
    }
}

cudaError_t put(cudaStream_t given, const Work &work) {
    Lock lock(mutex);
    Stream *stream = stream_of(given);
    if (broken()) return failed(cudaErrorLaunchFailure);
    if (Graph *graph = stream->recorded) {
        if (graph->invalid) return failed(cudaErrorStreamCaptureInvalidated);
        graph->work.push_back(work);
        return cudaSuccess;
    }
    make_context(stream->device);
    work();
    return cudaSuccess;
}

cudaError_t wait_for(Stream *stream) {
    Lock lock(mutex);
    if (stream->recorded) {
        stream->recorded->invalid = true;
        return failed(cudaErrorStreamCaptureUnsupported);
    }
    if (spoils()) return failed(cudaErrorStreamCaptureUnsupported);
    land(stream, true);
    return done();
}

cudaError_t allocate(void **made, size_t size, Kind kind) {
    start();
    Lock lock(mutex);
    if (spoils()) return failed(cudaErrorStreamCaptureUnsupported);
    make_context(current);
    if (broken()) return failed(cudaErrorLaunchFailure);
    *made = nullptr;
    if (kind == DEVICE && CONTEXT + used[current] + size > memory) return failed(cudaErrorMemoryAllocation);
    if (posix_memalign(made, 512, size ? size : 1)) return failed(cudaErrorMemoryAllocation);
    memset(*made, 0x7f, size);  // whoever reads what was never written shall see it
    if (kind == DEVICE) used[current] += size, tell_held();
    blocks[static_cast<char *>(*made)] = {size, current, kind};
    return cudaSuccess;
}

cudaError_t release(void *block) {
    Lock lock(mutex);
    if (spoils()) return failed(cudaErrorStreamCaptureUnsupported);
    auto found = blocks.find(static_cast<char *>(block));
    if (found == blocks.end()) return block ? failed(cudaErrorInvalidValue) : done();
    if (found->second.kind == DEVICE) used[found->second.device] -= found->second.size, tell_held();
    blocks.erase(found);
    free(block);
    return done();
}

cudaError_t launch(const void *kernel, cudaStream_t stream) {
    Lock lock(mutex);
    auto name = kernels.find(kernel);
    launched.insert(name == kernels.end() ? "?" : name->second);
    return put(stream, [] {});
}

#if CUDART_VERSION >= 13000
// Of the driver's functions torch asks for this one where it must not make a context.
CUresult context_state(CUdevice device, unsigned *flags, int *active) {
    Lock lock(mutex);
    *flags = 0;
    *active = has_context[device];
    return CUDA_SUCCESS;
}

CUresult not_supported(...) { return CUDA_ERROR_NOT_SUPPORTED; }
#endif

thread_local std::vector<std::tuple<dim3, dim3, size_t, cudaStream_t>> calls;

}  // namespace

// -- what hook/cuda_operators.py asks for --

namespace {

struct On {
    int before = current;
    explicit On(int device) { current = device; }
    ~On() { current = before; }
};

}  // namespace

EXPORT int standin_has_context(int device) { return has_context[device]; }

EXPORT unsigned long long standin_recorded(int device, void *stream) {
    On on(device);
    Lock lock(mutex);
    Graph *graph = stream_of(static_cast<cudaStream_t>(stream))->recorded;
    return graph ? graph->id : 0;
}

EXPORT int standin_put(int device, void *stream, void (*work)(unsigned long long), unsigned long long argument) {
    On on(device);
    return put(static_cast<cudaStream_t>(stream), [=] { work(argument); });
}

EXPORT void standin_land(int device, void *stream, void (*work)(unsigned long long), unsigned long long argument) {
    On on(device);
    Lock lock(mutex);
    stream_of(static_cast<cudaStream_t>(stream))->landing.emplace_back(now() + LANDING_MS, [=] { work(argument); });
}

// -- devices --

EXPORT cudaError_t cudaGetDeviceCount(int *count) {
    start();
    *count = static_cast<int>(visible.size());
    return visible.empty() ? failed(cudaErrorNoDevice) : cudaSuccess;
}

EXPORT cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return cudaSuccess;
}

EXPORT cudaError_t cudaSetDevice(int device) {
    if (!is_there(device)) return failed(cudaErrorInvalidDevice);
    current = device;
    make_context(device);
    return done();
}

EXPORT cudaError_t cudaDriverGetVersion(int *version) { return *version = 13000, cudaSuccess; }
EXPORT cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION / 1000 * 1000, cudaSuccess; }

EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp *of, int device) {
    if (!is_there(device)) return failed(cudaErrorInvalidDevice);
    *of = {};
    snprintf(of->name, sizeof of->name, "NVIDIA H100 80GB HBM3");
    of->totalGlobalMem = memory;
    of->major = 9;
    of->multiProcessorCount = 132;
    of->warpSize = 32;
    of->maxThreadsPerBlock = of->maxThreadsDim[0] = of->maxThreadsDim[1] = 1024;
    of->maxThreadsDim[2] = 64;
    of->maxGridSize[0] = 2147483647;
    of->maxGridSize[1] = of->maxGridSize[2] = 65535;
    of->maxThreadsPerMultiProcessor = 2048;
    of->sharedMemPerBlock = 49152;
    of->sharedMemPerBlockOptin = 232448;
    of->regsPerBlock = of->regsPerMultiprocessor = 65536;
    of->l2CacheSize = 50 << 20;
    of->textureAlignment = 512;
    of->pciBusID = 16 + visible[device];
    memcpy(of->uuid.bytes, "\xfa\xce", 2);  // as __main__.py tells NVML
    of->uuid.bytes[15] = static_cast<char>(visible[device]);
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp of;
    if (cudaError_t error = cudaGetDeviceProperties(&of, device)) return error;
    switch (attribute) {
        case cudaDevAttrComputeCapabilityMajor: *value = of.major; break;
        case cudaDevAttrMultiProcessorCount: *value = of.multiProcessorCount; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(of.sharedMemPerBlock); break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(of.sharedMemPerBlockOptin); break;
        case cudaDevAttrMaxThreadsPerBlock: *value = of.maxThreadsPerBlock; break;
        case cudaDevAttrWarpSize: *value = of.warpSize; break;
        default: *value = 0;
    }
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device) {
    if (!is_there(device)) return failed(cudaErrorInvalidDevice);
    snprintf(text, size, "0000:%02x:00.0", 16 + visible[device]);
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) { return *can = 1, cudaSuccess; }

EXPORT cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned) { return make_context(device), cudaSuccess; }

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, cudaSuccess; }

EXPORT cudaError_t cudaDeviceSynchronize() { return is_there(current) ? wait_for(stream_of(nullptr)) : failed(cudaErrorNoDevice); }

#if CUDART_VERSION >= 13000
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char *name, void **function, unsigned, unsigned long long, cudaDriverEntryPointQueryResult *result) {
    bool known = !strcmp(name, "cuDevicePrimaryCtxGetState");
    *function = known ? reinterpret_cast<void *>(context_state) : reinterpret_cast<void *>(not_supported);
    if (result) *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
#endif

// -- errors --

EXPORT cudaError_t cudaGetLastError() {
    cudaError_t error = std::exchange(last, cudaSuccess);
    return broken() ? cudaErrorLaunchFailure : error;
}

EXPORT cudaError_t cudaPeekAtLastError() { return broken() ? cudaErrorLaunchFailure : last; }

EXPORT const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorNoDevice: return "no CUDA-capable device is detected";
        case cudaErrorInvalidDevice: return "invalid device ordinal";
        case cudaErrorInvalidResourceHandle: return "invalid resource handle";
        case cudaErrorNotReady: return "device not ready";
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        case cudaErrorNotSupported: return "operation not supported";
        case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
        case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
        default: return "unknown error";
    }
}

EXPORT const char *cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheStandIn"; }

// -- memory --

EXPORT cudaError_t cudaMalloc(void **made, size_t size) { return allocate(made, size, DEVICE); }
EXPORT cudaError_t cudaMallocAsync(void **made, size_t size, cudaStream_t) { return allocate(made, size, DEVICE); }
EXPORT cudaError_t cudaHostAlloc(void **made, size_t size, unsigned) { return allocate(made, size, HOST); }
EXPORT cudaError_t cudaMallocHost(void **made, size_t size) { return allocate(made, size, HOST); }
EXPORT cudaError_t cudaFree(void *block) { return release(block); }
EXPORT cudaError_t cudaFreeAsync(void *block, cudaStream_t) { return release(block); }
EXPORT cudaError_t cudaFreeHost(void *block) { return release(block); }

EXPORT cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    start();
    Lock lock(mutex);
    make_context(current);
    *total = memory;
    *free = memory - CONTEXT - used[current];
    return done();
}

EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *of, const void *pointer) {
    Lock lock(mutex);
    *of = {};
    of->type = cudaMemoryTypeUnregistered;
    char *place = static_cast<char *>(const_cast<void *>(pointer));
    auto after = blocks.upper_bound(place);
    if (after == blocks.begin()) return cudaSuccess;
    const auto &[begin, block] = *std::prev(after);
    if (place >= begin + block.size) return cudaSuccess;
    of->type = block.kind == HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    of->device = block.device;
    of->devicePointer = place;
    of->hostPointer = block.kind == HOST ? place : nullptr;
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind, cudaStream_t stream) {
    return put(stream, [=] { memmove(to, from, size); });
}

EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t size, cudaStream_t stream) {
    return put(stream, [=] { memmove(to, from, size); });
}

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind) {
    if (spoils()) return failed(cudaErrorStreamCaptureUnsupported);
    memmove(to, from, size);
    return done();
}

EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    return put(stream, [=] { memset(to, value, size); });
}

EXPORT cudaError_t cudaMemset(void *to, int value, size_t size) { return memset(to, value, size), done(); }
EXPORT cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, cudaMemcpyKind) { return cudaSuccess; }

// -- streams and events --

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *made, unsigned, int priority) {
    start();
    if (spoils()) return failed(cudaErrorStreamCaptureUnsupported);
    Lock lock(mutex);
    make_context(current);
    Stream *stream = new Stream;
    stream->device = current;
    stream->priority = priority;
    *made = reinterpret_cast<cudaStream_t>(stream);
    return done();
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *made, unsigned flags) { return cudaStreamCreateWithPriority(made, flags, 0); }
EXPORT cudaError_t cudaStreamCreate(cudaStream_t *made) { return cudaStreamCreateWithPriority(made, 0, 0); }
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) { return *priority = stream_of(stream)->priority, cudaSuccess; }
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return wait_for(stream_of(stream)); }

EXPORT cudaError_t cudaStreamQuery(cudaStream_t given) {
    Lock lock(mutex);
    Stream *stream = stream_of(given);
    if (spoils()) return failed(cudaErrorStreamCaptureUnsupported);
    land(stream, false);
    return stream->landing.empty() ? done() : cudaErrorNotReady;
}

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *made, unsigned flags) {
    start();
    Lock lock(mutex);
    make_context(current);
    Event *event = new Event;
    event->device = current;
    event->timed = !(flags & cudaEventDisableTiming);
    *made = reinterpret_cast<cudaEvent_t>(event);
    return done();
}

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *made) { return cudaEventCreateWithFlags(made, 0); }
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }

EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t given, cudaStream_t to, unsigned) {
    Lock lock(mutex);
    Event *event = reinterpret_cast<Event *>(given);
    Stream *stream = stream_of(to);
    if (event->device != stream->device) return failed(cudaErrorInvalidResourceHandle);
    event->recorded = stream->recorded;
    event->stream = stream;
    event->after = stream->landed + stream->landing.size();
    event->at = now();
    return done();
}

EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }

EXPORT cudaError_t cudaEventQuery(cudaEvent_t given) {
    Lock lock(mutex);
    Event *event = reinterpret_cast<Event *>(given);
    if (event->recorded) return failed(cudaErrorCapturedEvent);
    if (spoils()) return failed(cudaErrorStreamCaptureUnsupported);
    if (!event->stream) return done();
    land(event->stream, false);
    return event->stream->landed >= event->after ? done() : cudaErrorNotReady;
}

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t given) {
    Lock lock(mutex);
    Event *event = reinterpret_cast<Event *>(given);
    if (event->recorded) return failed(cudaErrorCapturedEvent);
    if (spoils()) return failed(cudaErrorStreamCaptureUnsupported);
    if (event->stream) land(event->stream, true);
    return done();
}

EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    Lock lock(mutex);
    Event *begin = reinterpret_cast<Event *>(from), *end = reinterpret_cast<Event *>(to);
    for (Event *each : {begin, end})
        if (each->at < 0 || !each->timed || each->recorded) return failed(cudaErrorInvalidResourceHandle);
    for (Event *each : {begin, end})
        if (each->stream->landed < each->after) return failed(cudaErrorNotReady);
    *ms = static_cast<float>(end->at - begin->at);
    return done();
}

EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t given, cudaEvent_t awaited, unsigned) {
    Lock lock(mutex);
    Stream *stream = stream_of(given);
    Event *event = reinterpret_cast<Event *>(awaited);
    if (!event->recorded) return done();
    if (stream->recorded && stream->recorded != event->recorded) return failed(cudaErrorStreamCaptureMerge);
    stream->recorded = event->recorded;
    recording.insert(stream);
    return done();
}

// -- recordings --

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t given, cudaStreamCaptureMode mode) {
    Lock lock(mutex);
    if (!given) return failed(cudaErrorStreamCaptureUnsupported);
    Stream *stream = stream_of(given);
    if (stream->recorded) return failed(cudaErrorIllegalState);
    stream->recorded = new Graph{++graphs, {}, false};
    stream->began = true;
    stream->mode = mode;
    stream->thread = this_thread();
    recording.insert(stream);
    return done();
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t given, cudaGraph_t *made) {
    Lock lock(mutex);
    Stream *first = stream_of(given);
    Graph *graph = first->recorded;
    if (!graph || !first->began) return failed(cudaErrorIllegalState);
    for (auto each = recording.begin(); each != recording.end();) {
        Stream *stream = *each;
        if (stream->recorded != graph) {
            ++each;
            continue;
        }
        stream->recorded = nullptr;
        stream->began = false;
        each = recording.erase(each);
    }
    *made = graph->invalid ? nullptr : reinterpret_cast<cudaGraph_t>(graph);
    return graph->invalid ? failed(cudaErrorStreamCaptureInvalidated) : done();
}

EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    Lock lock(mutex);
    Graph *graph = stream_of(stream)->recorded;
    *status = !graph ? cudaStreamCaptureStatusNone : graph->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

namespace {

cudaError_t tell_of_recording(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph, size_t *count) {
    Lock lock(mutex);
    Graph *recorded = stream_of(stream)->recorded;
    if (id) *id = recorded ? recorded->id : 0;
    if (graph) *graph = reinterpret_cast<cudaGraph_t>(recorded);
    if (count) *count = 0;
    return cudaStreamIsCapturing(stream, status);
}

}  // namespace

#if CUDART_VERSION >= 13000
EXPORT cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **,
    const cudaGraphEdgeData **, size_t *count) {
    return tell_of_recording(stream, status, id, graph, count);
}
#else
EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(
    cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **, size_t *count) {
    return tell_of_recording(stream, status, id, graph, count);
}
#endif

EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) { return std::swap(*mode, thread_mode), cudaSuccess; }

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long) {
    *made = reinterpret_cast<cudaGraphExec_t>(graph);
    return done();
}
EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiate(made, graph, flags);
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    return put(stream, [=] {
        for (const Work &work : reinterpret_cast<Graph *>(graph)->work) work();
    });
}

EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *, size_t *count) {
    *count = reinterpret_cast<Graph *>(graph)->work.size();
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t, unsigned, unsigned) { return cudaSuccess; }
EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t *made, void *, cudaHostFn_t, unsigned, unsigned) { return *made = nullptr, cudaSuccess; }
EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t, unsigned) { return cudaSuccess; }
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *with) { return put(stream, [=] { call(with); }); }

// -- kernels --

EXPORT void **__cudaRegisterFatBinary(void *) {
    static void *handle;
    return &handle;
}
EXPORT void __cudaRegisterFatBinaryEnd(void **) {}
EXPORT void __cudaUnregisterFatBinary(void **) {}
EXPORT char __cudaInitModule(void **) { return 1; }
EXPORT void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}

EXPORT void __cudaRegisterFunction(void **, const char *kernel, char *, const char *name, int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
    static bool wanted = getenv("STANDIN_LAUNCHES") != nullptr;
    if (wanted) kernels[kernel] = name;
}

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    calls.emplace_back(grid, block, shared, stream);
    return 0;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    std::tie(*grid, *block, *shared, *static_cast<cudaStream_t *>(stream)) = calls.back();
    calls.pop_back();
    return cudaSuccess;
}

EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(function));
    return cudaSuccess;
}
EXPORT cudaError_t cudaLaunchKernel(const void *kernel, dim3, dim3, void **, size_t, cudaStream_t stream) { return launch(kernel, stream); }
EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void **, size_t, cudaStream_t stream) { return launch(kernel, stream); }
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *kernel, void **) { return launch(kernel, how->stream); }
EXPORT cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
EXPORT cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) { return cudaSuccess; }

EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *of, const void *) {
    *of = {};
    of->maxThreadsPerBlock = 1024;
    of->binaryVersion = of->ptxVersion = 90;
    return cudaSuccess;
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *, int, size_t) { return *count = 8, cudaSuccess; }
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *, int, size_t, unsigned) { return *count = 8, cudaSuccess; }
EXPORT cudaError_t cudaProfilerStart() { return cudaSuccess; }
EXPORT cudaError_t cudaProfilerStop() { return cudaSuccess; }

// -- what torch has, and nothing here needs --

// The parameters do not matter to a function that looks at none of them.
#define NOT_SUPPORTED(name) \
    EXPORT int standin_##name() __asm__(#name); \
    int standin_##name() { return failed(cudaErrorNotSupported); }

NOT_SUPPORTED(cudaDeviceGetDefaultMemPool)
NOT_SUPPORTED(cudaDeviceGetGraphMemAttribute)
NOT_SUPPORTED(cudaDeviceSetGraphMemAttribute)
NOT_SUPPORTED(cudaGetSymbolAddress)
NOT_SUPPORTED(cudaGraphAddNode)
NOT_SUPPORTED(cudaGraphConditionalHandleCreate)
NOT_SUPPORTED(cudaGraphDebugDotPrint)
NOT_SUPPORTED(cudaGraphNodeGetDependencies)
NOT_SUPPORTED(cudaHostGetDevicePointer)
NOT_SUPPORTED(cudaHostRegister)
NOT_SUPPORTED(cudaHostUnregister)
NOT_SUPPORTED(cudaIpcCloseMemHandle)
NOT_SUPPORTED(cudaIpcGetEventHandle)
NOT_SUPPORTED(cudaIpcGetMemHandle)
NOT_SUPPORTED(cudaIpcOpenEventHandle)
NOT_SUPPORTED(cudaIpcOpenMemHandle)
NOT_SUPPORTED(cudaLaunchCooperativeKernel)
NOT_SUPPORTED(cudaLibraryGetGlobal)
NOT_SUPPORTED(cudaLibraryGetKernel)
NOT_SUPPORTED(cudaLibraryGetKernelCount)
NOT_SUPPORTED(cudaLibraryGetManaged)
NOT_SUPPORTED(cudaLibraryGetUnifiedFunction)
NOT_SUPPORTED(cudaLibraryLoadData)
NOT_SUPPORTED(cudaLibraryLoadFromFile)
NOT_SUPPORTED(cudaLibraryUnload)
NOT_SUPPORTED(cudaMallocManaged)
NOT_SUPPORTED(cudaMemPoolGetAttribute)
NOT_SUPPORTED(cudaMemPoolSetAccess)
NOT_SUPPORTED(cudaMemPoolSetAttribute)
NOT_SUPPORTED(cudaMemPoolTrimTo)
NOT_SUPPORTED(cudaMemcpy2DAsync)
NOT_SUPPORTED(cudaStreamAddCallback)
NOT_SUPPORTED(cudaStreamBeginCaptureToGraph)
NOT_SUPPORTED(cudaStreamUpdateCaptureDependencies)
