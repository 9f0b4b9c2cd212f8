// Generates from a bundle of TensorRT or TensorRT-RTX engines: a host in C++ that knows docs/engine-abi.md alone.
//
//   g++ -std=c++17 host.cpp -o host -lnvinfer -lcudart      (TensorRT-RTX: -ltensorrt_rtx for -lnvinfer)
//   ./host build/my-bundle MAX_TOKENS GAMMA TEMPERATURE SEED 1 4093 253 28
//
// Prints the ids that follow. For acceptance `greedy` and `coupled`, with drafts from the text or by a draft engine.
#include <NvInferRuntime.h>
#include <cuda_runtime_api.h>

#include "json.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

using Ids = std::vector<int64_t>;
using Inputs = std::map<std::string, std::vector<double>>;  // every id and seed is a number that a double holds

struct Logger : nvinfer1::ILogger {
  void log(Severity severity, const char* text) noexcept override {
    if (severity <= Severity::kERROR) std::cerr << text << '\n';
  }
} logger;

int64_t length(const Ids& ids) { return static_cast<int64_t>(ids.size()); }

std::string file_content(const std::string& path) {
  std::ostringstream content;
  if (!(content << std::ifstream(path, std::ios::binary).rdbuf())) refuse("cannot read " + path);
  return content.str();
}

nvinfer1::Dims dims_of(const Json& tensor, int64_t tokens, int64_t rows) {
  nvinfer1::Dims dims{};
  for (const Json& size : tensor["shape"].items) {
    const std::string& name = size.text;  // or a number; the batch is one sequence
    dims.d[dims.nbDims++] = name == "B" ? 1 : name == "S" ? tokens : name == "R" ? rows : size.integer();
  }
  return dims;
}

size_t bytes_of(const Json& tensor, const nvinfer1::Dims& dims) {
  const std::string& dtype = tensor["dtype"].text;
  size_t bytes = dtype == "i64" ? 8 : dtype == "f32" ? 4 : 2;  // small tensors, and caches of f16 or bf16
  for (int32_t i = 0; i < dims.nbDims; ++i) bytes *= static_cast<size_t>(dims.d[i]);
  return bytes;
}

template <typename Number>
std::string bytes_from(std::vector<double> entries, size_t count) {
  entries.resize(count, entries.back());  // padding repeats the last entry
  const std::vector<Number> numbers(entries.begin(), entries.end());
  return {reinterpret_cast<const char*>(numbers.data()), count * sizeof(Number)};
}

// Before an engine is loaded: it is for the version of the library that built it, and for the GPUs that it names.
void check_here(const Json& spec) {
  std::ostringstream version, sm, sms;
  version << getInferLibMajorVersion() << '.' << getInferLibMinorVersion() << '.' << getInferLibPatchVersion() << '.'
          << getInferLibBuildVersion();
  const std::string& built = spec["library"].text;
  if (built != version.str())
    refuse("the engine was built by version " + built + " of the library; here is " + version.str());
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device) == cudaSuccess, "finding a GPU");
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  sm << major << '.' << minor;
  for (const Json& one : spec["compute_capabilities"].items) sms << ' ' << one.text;
  if ((sms.str() + " ").find(" " + sm.str() + " ") == std::string::npos)
    refuse("the engine was built for SM" + sms.str() + "; this GPU is SM " + sm.str());
}

// One engine: a context for each profile, and device memory of every tensor, which stays where it is.
struct Engine {
  Engine(const std::string& bundle, const Json& described, cudaStream_t given) : spec(described), stream(given) {
    check_here(spec);
    const std::string bytes = file_content(bundle + "/" + spec["file"].text);
    runtime.reset(nvinfer1::createInferRuntime(logger));
    engine.reset(runtime ? runtime->deserializeCudaEngine(bytes.data(), bytes.size()) : nullptr);
    check(engine != nullptr, "loading " + spec["file"].text);
    for (const Json& profile : spec["profiles"].items) {
      const auto index = static_cast<int32_t>(contexts.size());
      auto& context = contexts[profile["name"].text];
      context.reset(engine->createExecutionContext());
      check(context && context->setOptimizationProfileAsync(index, stream), "making a context");
      most_tokens = std::max(most_tokens, profile["tokens"][2].integer());
      most_rows = std::max(most_rows, profile["logit_rows"][2].integer());
    }
    for (const char* kind : {"inputs", "outputs"}) {
      for (const Json& tensor : spec[kind].items) allocate(tensor);
      for (const Json& cache : spec["caches"].items) memory[cache["output"].text] = memory[cache["input"].text];
    }
    for (const auto& [profile, context] : contexts)
      for (const auto& [name, address] : memory)
        check(context->setTensorAddress(name.c_str(), address), "binding " + name + " of profile " + profile);
  }

  void allocate(const Json& tensor) {
    void*& address = memory[tensor["name"].text];
    if (address) return;  // a cache's output lies where its input does
    const size_t bytes = bytes_of(tensor, dims_of(tensor, most_tokens, most_rows));
    check(cudaMalloc(&address, bytes) == cudaSuccess, "allocating " + std::to_string(bytes) + " bytes on the device");
    // Zeros: a stale row of a cache is masked, but 0 times a value that is no number is no number.
    check(cudaMemsetAsync(address, 0, bytes, stream) == cudaSuccess, "cudaMemsetAsync");
  }

  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, bytes, kind, stream) == cudaSuccess, "copying");
  }

  const Json& narrowest_profile(int64_t tokens, int64_t rows) const {
    const Json* best = nullptr;
    for (const Json& profile : spec["profiles"].items)
      if (tokens <= profile["tokens"][2].integer() && rows <= profile["logit_rows"][2].integer())
        if (!best || profile["tokens"][2].integer() < (*best)["tokens"][2].integer()) best = &profile;
    check(best, "finding a profile for " + std::to_string(tokens) + " tokens");
    return *best;
  }

  // Runs a row of tokens, the last `drafts` of them drafts, over `past` valid cache rows; returns the int64 outputs.
  std::map<std::string, Ids> call(const Ids& row, int64_t past, int64_t drafts, Inputs inputs) {
    const Json& profile = narrowest_profile(length(row), drafts + 1);
    const int64_t tokens = std::max(length(row), profile["tokens"][0].integer());
    const int64_t rows = std::max(drafts + 1, profile["logit_rows"][0].integer()), end = past + tokens;
    // TensorRT does not check that padding ends inside the caches.
    check(end <= spec["capacity"].integer(), "fitting " + std::to_string(end) + " rows into the caches");
    inputs["input_ids"].assign(row.begin(), row.end());
    inputs["num_tokens"].assign(1, length(row));
    inputs["past_lengths"].assign(1, past);
    inputs["num_draft"].assign(1, drafts);
    for (int64_t at = length(row) - drafts - 1; at < length(row); ++at) inputs["logit_rows"].push_back(at);
    nvinfer1::IExecutionContext& context = *contexts[profile["name"].text];
    std::vector<std::string> alive;  // host memory of copies that may still be under way
    for (const Json& tensor : spec["inputs"].items) {
      const std::string &name = tensor["name"].text, &dtype = tensor["dtype"].text;
      const nvinfer1::Dims dims = dims_of(tensor, tokens, rows);
      check(context.setInputShape(name.c_str(), dims), "setting the shape of " + name);
      if (dtype != "i64" && dtype != "f32") continue;  // a cache
      const auto [entries, unknown] = inputs.try_emplace(name, 1, tensor["neutral"].number());
      if (unknown && tensor["required"].text == "true")
        refuse(spec["file"].text + " requires an input that this host does not know: " + name);
      const size_t count = bytes_of(tensor, dims) / (dtype == "f32" ? 4 : 8);
      alive.push_back(dtype == "f32" ? bytes_from<float>(entries->second, count)
                                       : bytes_from<int64_t>(entries->second, count));
      copy(memory[name], alive.back().data(), alive.back().size(), cudaMemcpyHostToDevice);
    }
    check(context.enqueueV3(stream), "enqueueV3");
    std::map<std::string, Ids> outputs;
    for (const Json& tensor : spec["outputs"].items) {
      if (tensor["dtype"].text != "i64") continue;
      Ids& ids = outputs[tensor["name"].text];
      ids.resize(bytes_of(tensor, dims_of(tensor, tokens, rows)) / sizeof(int64_t));
      copy(ids.data(), memory[tensor["name"].text], ids.size() * sizeof(int64_t), cudaMemcpyDeviceToHost);
    }
    check(cudaStreamSynchronize(stream) == cudaSuccess, "the call");
    return outputs;
  }

  const Json& spec;
  cudaStream_t stream;
  int64_t most_tokens = 1, most_rows = 1;
  std::unique_ptr<nvinfer1::IRuntime> runtime;
  std::unique_ptr<nvinfer1::ICudaEngine> engine;
  std::map<std::string, std::unique_ptr<nvinfer1::IExecutionContext>> contexts;  // by the names of profiles
  std::map<std::string, void*> memory;
};

// Feeds what the caches lack of a text, in chunks; returns the token after it.
int64_t fed(Engine& engine, const Ids& text, int64_t& past, const Inputs& sampling) {
  int64_t next = -1;
  while (past < length(text)) {
    const Ids chunk(text.begin() + past, text.begin() + past + std::min(engine.most_tokens, length(text) - past));
    next = engine.call(chunk, past, 0, sampling)["next_token"][0];
    past += length(chunk);
  }
  return next;
}

// What followed the last occurrence of the last tokens, the longest pattern of 4 to 1 first.
Ids looked_up(const Ids& ids, int64_t gamma) {
  for (int64_t n = std::min<int64_t>(4, length(ids) - 1); n > 0; --n)
    for (int64_t start = length(ids) - n - 1; start >= 0; --start)
      if (std::equal(ids.end() - n, ids.end(), ids.begin() + start))
        return {ids.begin() + start + n, ids.begin() + start + n + std::min(gamma, length(ids) - start - n)};
  return {};
}

// Writes what follows the prompt: it is fed in chunks, then come rounds of drafts and their verification.
Ids generated(const std::string& bundle, const Json& manifest, Ids ids, int64_t most_tokens, int64_t gamma,
              const Inputs& sampling) {
  const int64_t longest = manifest["limits"]["max_length"].integer(), prompt = length(ids);
  const int64_t wanted = prompt + most_tokens, widest = manifest["limits"]["max_gamma"].integer();
  if (prompt < 1 || most_tokens < 1 || wanted > longest)
    refuse("prompt and output hold 1 to " + std::to_string(longest) + " tokens");
  const int64_t vocabulary = manifest["model"]["vocab_size"].integer();  // no engine checks what it looks up
  for (int64_t id : ids) check(id >= 0 && id < vocabulary, "finding id " + std::to_string(id) + " in the vocabulary");
  Ids stops;
  if (manifest["tokenizer"].text != "null")
    for (const Json& id : manifest["tokenizer"]["stop_ids"].items) stops.push_back(id.integer());
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream) == cudaSuccess, "cudaStreamCreate");
  std::map<std::string, std::unique_ptr<Engine>> engines;
  for (const Json& spec : manifest["engines"].items)
    if (spec["variant"].text == "main") engines[spec["role"].text] = std::make_unique<Engine>(bundle, spec, stream);
  check(engines.count("target"), "finding a target in the manifest");
  Engine &target = *engines.at("target"), *draft = engines["draft"].get();
  int64_t past = 0, draft_past = 0;
  ids.push_back(fed(target, ids, past, sampling));
  auto ended = [&] { return length(ids) == wanted || std::count(stops.begin(), stops.end(), ids.back()); };
  while (!ended()) {
    int64_t most = std::min({gamma, widest, wanted - length(ids)});
    if (draft) most = std::min(most, manifest["draft"]["context"].integer() + 1 - length(ids));
    Ids drafts = draft ? Ids{} : looked_up(ids, most);
    for (Ids text = ids; draft && length(drafts) < most; text.push_back(drafts.back()))
      drafts.push_back(fed(*draft, text, draft_past, sampling));
    drafts.insert(drafts.begin(), ids.back());
    auto out = target.call(drafts, past, length(drafts) - 1, sampling);
    past = out["next_past"][0];
    draft_past = std::min(draft_past, past);  // rows of drafts that were not accepted are stale
    for (int64_t j = 0; j <= out["num_accepted"][0] && !ended(); ++j) ids.push_back(out["tokens"][j]);
  }
  return {ids.begin() + prompt, ids.end()};
}

int main(int count, char** arguments) {
  if (count < 7) refuse("usage: host BUNDLE MAX_TOKENS GAMMA TEMPERATURE SEED ID...");
  std::vector<double> numbers;
  for (int i = 2; i < count; ++i) {
    char* end = arguments[i];
    numbers.push_back(std::strtod(arguments[i], &end));
    check(end != arguments[i] && !*end, std::string("reading the number ") + arguments[i]);
  }
  std::istringstream text(file_content(arguments[1] + std::string("/manifest.json")));
  const Json manifest = json_from(text);
  const std::string& acceptance = manifest["acceptance"].text;
  if (manifest["abi"][0].integer() != 1 || (acceptance != "greedy" && acceptance != "coupled"))
    refuse("this host has ABI 1, acceptance greedy and coupled");
  const Inputs sampling{{"temperature", {numbers[2]}}, {"seed", {numbers[3]}}};
  const Ids prompt(numbers.begin() + 4, numbers.end());
  for (int64_t id : generated(arguments[1], manifest, prompt, numbers[0], numbers[1], sampling))
    std::cout << id << '\n';
}
