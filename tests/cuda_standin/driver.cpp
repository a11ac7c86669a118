// A stand-in for the driver (libcuda.so.1), as far as torch cannot be loaded without it. What works is in runtime.cpp.

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" int standin_has_context(int device);

EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    *flags = 0;
    *active = standin_has_context(device);
    return 0;
}

#define NOT_SUPPORTED(name) \
    EXPORT int name() { return 801; }

NOT_SUPPORTED(cuCtxGetCurrent)
NOT_SUPPORTED(cuCtxSetCurrent)
NOT_SUPPORTED(cuDeviceGetAttribute)
NOT_SUPPORTED(cuDevicePrimaryCtxRetain)
NOT_SUPPORTED(cuFuncGetAttribute)
NOT_SUPPORTED(cuFuncSetAttribute)
NOT_SUPPORTED(cuFuncSetCacheConfig)
NOT_SUPPORTED(cuGetErrorString)
NOT_SUPPORTED(cuLaunchCooperativeKernel)
NOT_SUPPORTED(cuLaunchKernel)
NOT_SUPPORTED(cuLinkAddData_v2)
NOT_SUPPORTED(cuLinkComplete)
NOT_SUPPORTED(cuLinkCreate_v2)
NOT_SUPPORTED(cuModuleGetFunction)
NOT_SUPPORTED(cuModuleLoad)
NOT_SUPPORTED(cuModuleLoadData)
NOT_SUPPORTED(cuModuleLoadDataEx)
NOT_SUPPORTED(cuModuleUnload)
NOT_SUPPORTED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOT_SUPPORTED(cuPointerGetAttribute)
NOT_SUPPORTED(cuTensorMapEncodeTiled)
