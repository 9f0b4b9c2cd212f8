// Generates from a bundle of TensorRT or TensorRT-RTX engines: a host in C++ that knows docs/engine-abi.md alone.
//
//   g++ -std=c++17 host.cpp -o host -lnvinfer -lcudart      (TensorRT-RTX: -ltensorrt_rtx for -lnvinfer)
//   ./host build/my-bundle 1,4093,253,28 32 [gamma [temperature [seed]]]
//
// Prints the ids that follow the prompt's. One sequence, bundles of acceptance `greedy` and `coupled`, drafts by looking
// the text up or by the bundle's draft engine. Digests of files are in manifest.json: check them before you load.
#include <NvInferRuntime.h>
#include <cuda_runtime_api.h>

#include "json.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using Ids = std::vector<int64_t>;

std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Logger : nvinfer1::ILogger {
  void log(Severity severity, const char* text) noexcept override {
    if (severity <= Severity::kERROR) std::cerr << text << '\n';
  }
} logger;

using Sizes = std::map<std::string, int64_t>;
using Values = std::map<std::string, Ids>;
using Sampling = std::map<std::string, double>;
using Caches = std::map<std::string, void*>;

nvinfer1::Dims dims_of(const Json& tensor, const Sizes& sizes) {
  nvinfer1::Dims dims{};
  for (const Json& size : tensor["shape"].items) {
    auto named = sizes.find(size.text);
    dims.d[dims.nbDims++] = named != sizes.end() ? named->second : size.integer();
  }
  return dims;
}

size_t bytes_of(const Json& tensor, const Sizes& sizes) {
  const std::string& dtype = tensor["dtype"].text;
  size_t bytes = dtype == "i64" ? 8 : dtype == "f32" ? 4 : 2;  // small tensors, and caches of f16 or bf16
  nvinfer1::Dims dims = dims_of(tensor, sizes);
  for (int32_t i = 0; i < dims.nbDims; ++i) bytes *= static_cast<size_t>(dims.d[i]);
  return bytes;
}

void* allocated(size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes) == cudaSuccess, "allocating " + std::to_string(bytes) + " bytes of device memory");
  return memory;
}

// One engine: a context for each profile, a device buffer for each small tensor, caches that stay where they are.
class Engine {
 public:
  // `shared` has the caches of an engine whose early calls this one makes; it has its own where it names none.
  Engine(const std::string& bundle, const Json& spec, cudaStream_t stream, Caches shared)
      : caches(std::move(shared)), spec_(spec), profiles_(spec["profiles"].items), stream_(stream) {
    check_library();
    check_device();
    const std::string bytes = file_content(bundle + "/" + spec["file"].text);
    runtime_.reset(nvinfer1::createInferRuntime(logger));
    check(runtime_ != nullptr, "createInferRuntime");
    engine_.reset(runtime_->deserializeCudaEngine(bytes.data(), bytes.size()));
    check(engine_ != nullptr, "loading " + spec["file"].text);
    for (const Json& cache : spec["caches"].items) {
      cache_outputs_[cache["input"].text] = cache["output"].text;
      cache_names_.insert({cache["input"].text, cache["output"].text});
    }
    Sizes widest{{"B", 1}, {"S", 1}, {"R", 1}};
    for (const Json& profile : profiles_) {
      contexts_.emplace_back(engine_->createExecutionContext());
      const auto index = static_cast<int32_t>(contexts_.size()) - 1;
      check(contexts_[index] && contexts_[index]->setOptimizationProfileAsync(index, stream), "making a context");
      widest["S"] = std::max(widest["S"], profile["tokens"][2].integer());
      widest["R"] = std::max(widest["R"], profile["logit_rows"][2].integer());
    }
    widest_tokens = widest["S"];
    for (const char* kind : {"inputs", "outputs"})
      for (const Json& tensor : spec[kind].items) {
        const std::string& name = tensor["name"].text;
        if (!cache_names_.count(name)) buffers_[name] = allocated(bytes_of(tensor, widest));
        if (!cache_outputs_.count(name) || caches.count(name)) continue;
        caches[name] = allocated(bytes_of(tensor, widest));
        // Zeros: a stale row is masked, but 0 times a value that is no number is no number.
        check(cudaMemsetAsync(caches[name], 0, bytes_of(tensor, widest), stream) == cudaSuccess, "cudaMemsetAsync");
      }
  }

  // Runs a row of tokens, the last `drafts` of them drafts, over `past` valid cache rows; returns the int64 outputs.
  Values call(const Ids& tokens, int64_t past, int64_t drafts, const Sampling& sampling) {
    const auto given = static_cast<int64_t>(tokens.size());
    const size_t best = narrowest_profile(given, drafts + 1);
    Sizes sizes{{"B", 1}, {"S", std::max(given, profiles_[best]["tokens"][0].integer())}};
    sizes["R"] = std::max(drafts + 1, profiles_[best]["logit_rows"][0].integer());
    const int64_t end = past + sizes["S"];  // TensorRT does not check that padding ends inside the caches
    check(end <= spec_["capacity"].integer(), "fitting " + std::to_string(end) + " rows into the caches");
    Values values{{"input_ids", tokens}, {"num_tokens", {given}}, {"past_lengths", {past}}, {"num_draft", {drafts}}};
    values["input_ids"].resize(sizes["S"], 0);
    for (int64_t j = 0; j < sizes["R"]; ++j)
      values["logit_rows"].push_back(std::min(given - drafts - 1 + j, given - 1));
    nvinfer1::IExecutionContext& context = *contexts_[best];
    auto bind = [&](const std::string& name, void* address) {
      check(context.setTensorAddress(name.c_str(), address), "binding " + name);
    };
    std::vector<std::string> alive;  // host memory of copies that may still be under way
    for (const Json& tensor : spec_["inputs"].items) {
      const std::string& name = tensor["name"].text;
      check(context.setInputShape(name.c_str(), dims_of(tensor, sizes)), "setting the shape of " + name);
      if (cache_outputs_.count(name)) {
        bind(name, caches[name]);
        bind(cache_outputs_[name], caches[name]);
        continue;
      }
      const std::string& host = alive.emplace_back(content_of(tensor, sizes, values, sampling));
      copy(buffers_[name], host.data(), host.size(), cudaMemcpyHostToDevice);
      bind(name, buffers_[name]);
    }
    for (const Json& tensor : spec_["outputs"].items)
      if (!cache_names_.count(tensor["name"].text)) bind(tensor["name"].text, buffers_[tensor["name"].text]);
    check(context.enqueueV3(stream_), "enqueueV3");
    Values results;
    for (const Json& tensor : spec_["outputs"].items) {
      const std::string& name = tensor["name"].text;
      if (cache_names_.count(name) || tensor["dtype"].text != "i64") continue;
      const size_t size = bytes_of(tensor, sizes);
      results[name].resize(size / sizeof(int64_t));
      copy(results[name].data(), buffers_[name], size, cudaMemcpyDeviceToHost);
    }
    check(cudaStreamSynchronize(stream_) == cudaSuccess, "the call");
    return results;
  }

  Caches caches;
  int64_t widest_tokens = 0;

 private:
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, bytes, kind, stream_) == cudaSuccess, "copying");
  }

  void check_library() const {
    std::string here = std::to_string(getInferLibMajorVersion()) + "." + std::to_string(getInferLibMinorVersion());
    here += "." + std::to_string(getInferLibPatchVersion()) + "." + std::to_string(getInferLibBuildVersion());
    const std::string& built = spec_["library"].text;
    if (built != here) refuse("the engine was built by version " + built + " of the library; here is " + here);
  }

  void check_device() const {
    int device = 0, major = 0, minor = 0;
    check(cudaGetDevice(&device) == cudaSuccess, "finding a GPU");
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    const std::string here = std::to_string(major) + "." + std::to_string(minor);
    std::string built;
    for (const Json& sm : spec_["compute_capabilities"].items) {
      if (sm.text == here) return;
      built += " " + sm.text;
    }
    refuse("the engine was built for SM" + built + "; this GPU is SM " + here);
  }

  size_t narrowest_profile(int64_t tokens, int64_t rows) const {
    size_t best = profiles_.size();
    auto most = [&](size_t i) { return profiles_[i]["tokens"][2].integer(); };
    for (size_t i = 0; i < profiles_.size(); ++i)
      if (tokens <= most(i) && rows <= profiles_[i]["logit_rows"][2].integer())
        if (best == profiles_.size() || most(i) < most(best)) best = i;
    check(best < profiles_.size(), "finding a profile for " + std::to_string(tokens) + " tokens");
    return best;
  }

  // The bytes of one small input: what the call says, else what the request says, else the neutral value.
  std::string content_of(const Json& tensor, const Sizes& sizes, const Values& values, const Sampling& sampling) const {
    const std::string& name = tensor["name"].text;
    const auto stated = values.find(name);
    if (tensor["required"].text == "true" && stated == values.end())
      refuse(spec_["file"].text + " requires an input that this host does not know: " + name);
    const auto chosen = sampling.find(name);
    const double fill = chosen != sampling.end() ? chosen->second : tensor["neutral"].number();
    std::string bytes(bytes_of(tensor, sizes), '\0');
    const size_t width = tensor["dtype"].text == "f32" ? 4 : 8;
    for (size_t i = 0; i * width < bytes.size(); ++i) {
      const int64_t integer = stated != values.end() ? stated->second.at(i) : static_cast<int64_t>(fill);
      const auto real = static_cast<float>(fill);
      std::memcpy(&bytes[i * width], width == 4 ? static_cast<const void*>(&real) : &integer, width);
    }
    return bytes;
  }

  const Json& spec_;
  const std::vector<Json>& profiles_;
  cudaStream_t stream_;
  std::unique_ptr<nvinfer1::IRuntime> runtime_;
  std::unique_ptr<nvinfer1::ICudaEngine> engine_;
  std::vector<std::unique_ptr<nvinfer1::IExecutionContext>> contexts_;
  std::map<std::string, std::string> cache_outputs_;
  std::set<std::string> cache_names_;
  std::map<std::string, void*> buffers_;
};

// What followed the last occurrence of the last tokens, the longest pattern of 4 to 1 first.
Ids looked_up(const Ids& ids, int64_t gamma) {
  const int64_t length = static_cast<int64_t>(ids.size());
  for (int64_t n = std::min<int64_t>(4, length - 1); n > 0; --n)
    for (int64_t start = length - n - 1; start >= 0; --start)
      if (std::equal(ids.end() - n, ids.end(), ids.begin() + start)) {
        auto first = ids.begin() + start + n;
        return {first, first + std::min<int64_t>(gamma, ids.end() - first)};
      }
  return {};
}

// Writes what follows `ids`: prefill in chunks, then verification steps.
Ids generated(const std::string& bundle, const Json& manifest, const Ids& prompt, int64_t most_tokens, int64_t gamma,
              const Sampling& sampling) {
  const int64_t longest = manifest["limits"]["max_length"].integer();
  const int64_t chunk = manifest["limits"]["prefill_chunk"].integer();
  const auto start = static_cast<int64_t>(prompt.size()), wanted = start + most_tokens;
  if (start == 0 || wanted > longest) refuse("prompt and output hold 1 to " + std::to_string(longest) + " tokens");
  gamma = std::min(gamma, manifest["limits"]["max_gamma"].integer());
  std::set<int64_t> stops;
  if (manifest["tokenizer"].text != "null")
    for (const Json& id : manifest["tokenizer"]["stop_ids"].items) stops.insert(id.integer());
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream) == cudaSuccess, "cudaStreamCreate");
  std::map<std::string, std::unique_ptr<Engine>> engines;
  const bool shared = manifest["draft"]["kind"].text == "self";  // its caches are the target's
  for (const Json& spec : manifest["engines"].items)             // the target comes first
    if (spec["variant"].text == "main")
      engines[spec["role"].text] = std::make_unique<Engine>(
          bundle, spec, stream, shared && engines.count("target") ? engines["target"]->caches : Caches{});
  Engine* draft = engines.count("draft") ? engines["draft"].get() : nullptr;
  Ids ids = prompt;
  int64_t past = 0, draft_rows = 0, length = start;
  auto ended = [&] { return length >= wanted || (length > start && stops.count(ids.back())); };
  for (; !ended();) {
    Ids row(ids.begin() + past, ids.begin() + std::min(past + chunk, length)), drafts;
    const bool decoding = past + static_cast<int64_t>(row.size()) == length;
    int64_t most = decoding && past ? std::min({gamma, longest - length, wanted - length}) : 0;
    if (draft) most = std::min(most, manifest["draft"]["context"].integer() + 1 - length);
    if (!draft) drafts = looked_up(ids, most);
    while (draft && static_cast<int64_t>(drafts.size()) < most) {
      // The tokens that the draft's caches lack, in chunks, then each draft but the last.
      const auto first = ids.begin() + std::min(draft_rows, length);
      const Ids fed = draft_rows < length ? Ids(first, first + std::min(draft->widest_tokens, length - draft_rows))
                                          : Ids{drafts.back()};
      const int64_t next = draft->call(fed, draft_rows, 0, sampling)["next_token"][0];
      draft_rows += static_cast<int64_t>(fed.size());
      if (draft_rows >= length) drafts.push_back(next);
    }
    row.insert(row.end(), drafts.begin(), drafts.end());
    Values out = engines["target"]->call(row, past, static_cast<int64_t>(drafts.size()), sampling);
    past = out["next_past"][0];
    draft_rows = shared ? past : std::min(draft_rows, past);
    // The token of a chunk that does not end the prompt is none of the text; a stop id ends the text inside a block.
    for (int64_t j = 0; decoding && j <= out["num_accepted"][0] && !ended(); ++j, ++length)
      ids.push_back(out["tokens"][j]);
  }
  return {ids.begin() + start, ids.end()};
}

int main(int count, char** arguments) {
  if (count < 4) refuse("usage: host BUNDLE IDS MAX_TOKENS [GAMMA [TEMPERATURE [SEED]]]");
  const std::string bundle = arguments[1], text = file_content(bundle + "/manifest.json");
  size_t at = 0;
  const Json manifest = json_from(text, at);
  const std::string& acceptance = manifest["acceptance"].text;
  if (manifest["abi"][0].integer() != 1 || (acceptance != "greedy" && acceptance != "coupled"))
    refuse("this host has ABI 1, acceptance greedy and coupled");
  Ids prompt;
  std::istringstream listed(arguments[2]);
  for (std::string id; std::getline(listed, id, ',');) prompt.push_back(std::atoll(id.c_str()));
  const Sampling sampling{{"temperature", count > 5 ? std::atof(arguments[5]) : 0.0},
                          {"seed", count > 6 ? std::atof(arguments[6]) : 0.0}};
  const char* separator = "";
  const int64_t gamma = count > 4 ? std::atoll(arguments[4]) : 5;
  for (int64_t id : generated(bundle, manifest, prompt, std::atoll(arguments[3]), gamma, sampling)) {
    std::cout << separator << id;
    separator = ",";
  }
  std::cout << '\n';
}
