// The TensorRT declarations that examples/cpp/host.cpp needs; toy.cpp has definitions without a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace nvinfer1 {

struct Dims {
  int32_t nbDims;
  int64_t d[8];
};

class ILogger {
 public:
  enum class Severity : int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3, kVERBOSE = 4 };
  virtual void log(Severity severity, const char* text) noexcept = 0;
  virtual ~ILogger() = default;
};

class IExecutionContext {
 public:
  virtual ~IExecutionContext() = default;
  virtual bool setOptimizationProfileAsync(int32_t profile, cudaStream_t stream) noexcept = 0;
  virtual bool setInputShape(const char* name, const Dims& dims) noexcept = 0;
  virtual bool setTensorAddress(const char* name, void* address) noexcept = 0;
  virtual bool enqueueV3(cudaStream_t stream) noexcept = 0;
};

class ICudaEngine {
 public:
  virtual ~ICudaEngine() = default;
  virtual IExecutionContext* createExecutionContext() noexcept = 0;
};

class IRuntime {
 public:
  virtual ~IRuntime() = default;
  virtual ICudaEngine* deserializeCudaEngine(const void* bytes, size_t size) noexcept = 0;
};

IRuntime* createInferRuntime(ILogger& logger);

}  // namespace nvinfer1

extern "C" int32_t getInferLibMajorVersion() noexcept;
extern "C" int32_t getInferLibMinorVersion() noexcept;
extern "C" int32_t getInferLibPatchVersion() noexcept;
extern "C" int32_t getInferLibBuildVersion() noexcept;
