// TensorRT and CUDA as examples/cpp/host.cpp sees them, over host memory and without a model.
//
// An engine file is text: `vocabulary wrongness capacity`, then a line `Smin Smax Rmin Rmax` for each profile. The token
// after a text is a sum over its last three tokens, read from the cache, so that a wrong past, a stale row or a lost
// rollback shows in the text; drafts are off by one where the last token divides by `wrongness`.
#include <NvInferRuntime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

static std::map<char*, size_t> device_memory;

static bool on_device(const void* address, size_t bytes) {
  auto next = device_memory.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  if (next == device_memory.begin()) return false;
  --next;
  return static_cast<const char*>(address) + bytes <= next->first + next->second;
}

int32_t getInferLibMajorVersion() noexcept { return 11; }
int32_t getInferLibMinorVersion() noexcept { return 4; }
int32_t getInferLibPatchVersion() noexcept { return 0; }
int32_t getInferLibBuildVersion() noexcept { return 106; }

cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 8 : 9;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { *stream = nullptr; return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  std::memset(*memory, 0xab, bytes);
  device_memory[static_cast<char*>(*memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  if (!on_device(memory, bytes)) return cudaErrorInvalidValue;
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  if (!on_device(kind == cudaMemcpyHostToDevice ? to : from, bytes)) return cudaErrorInvalidValue;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

namespace nvinfer1 {
namespace {

struct Facts {
  int64_t vocabulary = 0, wrongness = 0, capacity = 0;
  std::vector<std::vector<int64_t>> profiles;
};

class Context : public IExecutionContext {
 public:
  explicit Context(const Facts& facts) : facts_(facts) {}
  bool setOptimizationProfileAsync(int32_t profile, cudaStream_t) noexcept override {
    profile_ = profile;
    return profile < static_cast<int32_t>(facts_.profiles.size());
  }
  bool setInputShape(const char* name, const Dims& dims) noexcept override {
    const auto& p = facts_.profiles[profile_];
    std::string input = name;
    if (input == "input_ids" && (dims.d[1] < p[0] || dims.d[1] > p[1])) return false;
    if (input == "logit_rows" && (dims.d[1] < p[2] || dims.d[1] > p[3])) return false;
    shapes_[input] = dims;
    return true;
  }
  bool setTensorAddress(const char* name, void* address) noexcept override {
    addresses_[name] = address;
    return on_device(address, 1);
  }
  bool enqueueV3(cudaStream_t) noexcept override {
    bool draft = !shapes_.count("logit_rows");
    for (const char* name : {"input_ids", "num_tokens", "past_lengths", "seed", "temperature", "key_cache_0", "key_cache_0_out"})
      if (!addresses_.count(name)) return false;
    float* cache = static_cast<float*>(addresses_["key_cache_0"]);
    if (cache != addresses_["key_cache_0_out"] || shapes_["key_cache_0"].d[2] != facts_.capacity) return false;
    int64_t tokens = shapes_["input_ids"].d[1], past = ints("past_lengths")[0], count = ints("num_tokens")[0];
    if (past + tokens > facts_.capacity || count > tokens) return false;
    for (int64_t i = 0; i < tokens; ++i)  // padding included
      if (ints("input_ids")[i] < 0 || ints("input_ids")[i] >= facts_.vocabulary) return false;
    for (int64_t i = 0; i < tokens; ++i) cache[past + i] = i < count ? static_cast<float>(ints("input_ids")[i]) : -7.0F;
    if (draft) {
      int64_t next = after(cache, past + count);
      ints("next_token")[0] = ints("input_ids")[count - 1] % facts_.wrongness == 0 ? (next + 1) % facts_.vocabulary : next;
      return true;
    }
    int64_t rows = shapes_["logit_rows"].d[1], drafts = ints("num_draft")[0], accepted = 0, anchor = ints("logit_rows")[0];
    if (drafts + 1 > rows) return false;
    for (int64_t j = 0; j < rows; ++j)
      if (ints("logit_rows")[j] != std::min(anchor + j, count - 1)) return false;
    for (int64_t j = 0; j < rows; ++j) ints("tokens")[j] = -1;
    for (;; ++accepted) {
      int64_t next = after(cache, past + anchor + accepted + 1);
      ints("tokens")[accepted] = next;
      if (accepted == drafts || ints("input_ids")[anchor + accepted + 1] != next) break;
    }
    ints("num_accepted")[0] = accepted;
    ints("next_token")[0] = ints("tokens")[accepted];
    ints("next_past")[0] = past + anchor + accepted + 1;
    return true;
  }

 private:
  int64_t* ints(const char* name) { return static_cast<int64_t*>(addresses_[name]); }
  int64_t after(const float* cache, int64_t length) {
    int64_t sum = *static_cast<float*>(addresses_["temperature"]) > 0 ? ints("seed")[0] : 0;
    for (int64_t i = 1; i <= 3 && i <= length; ++i) sum += i * static_cast<int64_t>(cache[length - i]);
    return (sum % facts_.vocabulary + facts_.vocabulary) % facts_.vocabulary;
  }
  const Facts& facts_;
  int32_t profile_ = 0;
  std::map<std::string, Dims> shapes_;
  std::map<std::string, void*> addresses_;
};

class Engine : public ICudaEngine {
 public:
  explicit Engine(Facts facts) : facts_(std::move(facts)) {}
  IExecutionContext* createExecutionContext() noexcept override { return new Context(facts_); }

 private:
  Facts facts_;
};

class Runtime : public IRuntime {
 public:
  ICudaEngine* deserializeCudaEngine(const void* bytes, size_t size) noexcept override {
    std::istringstream text(std::string(static_cast<const char*>(bytes), size));
    Facts facts;
    if (!(text >> facts.vocabulary >> facts.wrongness >> facts.capacity)) return nullptr;
    for (std::vector<int64_t> p(4); text >> p[0] >> p[1] >> p[2] >> p[3];) facts.profiles.push_back(p);
    return new Engine(facts);
  }
};

}  // namespace

IRuntime* createInferRuntime(ILogger&) { return new Runtime; }

}  // namespace nvinfer1
