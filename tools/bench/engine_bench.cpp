#include "tools/bench/engine_bench.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "policies/engine/engine.hpp"
#include "policies/model/checkpoint.hpp"
#include "policies/model/initialization.hpp"
#include "policies/model/weights.hpp"
#include "tools/bench/alignpack_bench.hpp"
#include "tools/bench/call_lengths.hpp"
#include "tools/bench/peer_command.hpp"
#include "tools/bench/scratch_folder.hpp"

namespace memopd {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

Expected<void> check_options(const EngineBenchOptions& options) {
  std::int32_t smallest = std::min(options.num_threads, options.max_sequences);
  for (const std::int32_t batch : options.peer_batches) smallest = std::min(smallest, batch);
  if (smallest < 1 || options.num_trajectories < 1 || options.num_trajectories > 8) {
    return unexpected(ErrorCode::invalid_argument,
                      "bench engine: threads, slots or a batch is " + std::to_string(smallest) + ", allowed >= 1; " +
                          std::to_string(options.num_trajectories) + " trajectories, allowed 1 to 8");
  }
  return {};
}

std::int32_t longest_call(std::span<const Trajectory> trajectories) {
  std::size_t longest = 0;
  for (const Trajectory& trajectory : trajectories) {
    for (const Invocation& call : trajectory.invocations) {
      longest = std::max(longest, call.prompt_token_ids.size() + call.response_token_ids.size());
    }
  }
  return static_cast<std::int32_t>(longest);
}

/// Agents that wait for each answer before they send the next call.
class Agents {
 public:
  Agents(Engine& engine, std::span<const Trajectory> trajectories) : engine_(engine), trajectories_(trajectories) {}

  Expected<void> run(EngineBench& bench) {
    const EngineCounters before = engine_.counters();
    const Clock::time_point begin = Clock::now();
    for (std::size_t t = 0; t < trajectories_.size(); ++t) MEMOPD_RETURN_IF_ERROR(send(t, 0));
    Clock::duration decoding{};
    std::int64_t num_decode_steps = 0;
    std::int64_t num_decoded = 0;
    while (!engine_.is_idle()) {
      const EngineCounters last = engine_.counters();
      const Clock::time_point step_begin = Clock::now();
      const std::vector<GenerateResult> results = engine_.step();
      if (engine_.counters().prefill_tokens == last.prefill_tokens) {
        decoding += Clock::now() - step_begin;
        num_decoded += engine_.counters().generated_tokens - last.generated_tokens;
        ++num_decode_steps;
      }
      MEMOPD_RETURN_IF_ERROR(receive(results, bench));
    }
    const double total = seconds(Clock::now() - begin);
    const EngineCounters after = engine_.counters();
    bench.tokens = after.generated_tokens - before.generated_tokens;
    bench.ours_tok_s = static_cast<double>(bench.tokens) / total;
    bench.ttft_ms /= static_cast<double>(num_sent_);
    const auto hits = static_cast<double>(after.prefix_hit_tokens - before.prefix_hit_tokens);
    bench.cache_hit_frac = hits / (hits + static_cast<double>(after.prefill_tokens - before.prefill_tokens));
    bench.decode_frac = seconds(decoding) / total;
    bench.prefill_frac = 1 - bench.decode_frac;
    bench.decode_batch =
        static_cast<double>(num_decoded) / static_cast<double>(std::max<std::int64_t>(1, num_decode_steps));
    return {};
  }

 private:
  struct Sent {
    std::size_t trajectory = 0;
    std::size_t call = 0;
    Clock::time_point at;
  };

  Expected<void> send(std::size_t trajectory, std::size_t index) {
    const Invocation& call = trajectories_[trajectory].invocations[index];
    const auto length = static_cast<std::int32_t>(call.response_token_ids.size());
    const std::uint64_t id = ++num_sent_;
    sent_[id] = {trajectory, index, Clock::now()};
    return engine_.submit({.request_id = id,
                           .prompt_token_ids = call.prompt_token_ids,
                           .sampling = {.temperature = 0, .max_response_tokens = length}});
  }

  Expected<void> receive(const std::vector<GenerateResult>& results, EngineBench& bench) {
    for (const GenerateResult& result : results) {
      const Sent sent = sent_.at(result.request_id);
      bench.ttft_ms += 1000 * seconds(Clock::now() - sent.at) - result.timings.decode_ms;
      const bool is_over = sent.call + 1 == trajectories_[sent.trajectory].invocations.size();
      if (!is_over) MEMOPD_RETURN_IF_ERROR(send(sent.trajectory, sent.call + 1));
    }
    return {};
  }

  Engine& engine_;
  std::span<const Trajectory> trajectories_;
  std::map<std::uint64_t, Sent> sent_;
  std::uint64_t num_sent_ = 0;
};

Expected<void> measure_ours(const std::filesystem::path& model, std::span<const Trajectory> trajectories,
                            const EngineBenchOptions& options, EngineBench& bench) {
  auto engine = Engine::create(model, nullptr,
                               {.max_sequences = options.max_sequences,
                                .max_context_tokens = std::max(longest_call(trajectories), 32),
                                .prefix_cache_tokens = options.prefix_cache_tokens});
  if (!engine) return unexpected(engine.error());
  MEMOPD_RETURN_IF_ERROR((*engine)->submit(
      {.request_id = 0, .prompt_token_ids = std::vector<std::int32_t>(16, 1), .sampling = {.max_response_tokens = 2}}));
  while (!(*engine)->is_idle()) static_cast<void>((*engine)->step());
  return Agents(**engine, trajectories).run(bench);
}

Expected<void> measure_peer(const std::filesystem::path& model, const std::filesystem::path& requests,
                            const EngineBenchOptions& options, EngineBench& bench) {
  const std::filesystem::path script = options.source / "tools" / "bench" / "engine_peer.py";
  std::string command = quoted(options.peer_python) + " " + quoted(script) + " " + quoted(model) + " " +
                        quoted(requests) + " " + std::to_string(options.num_threads);
  for (const std::int32_t batch : options.peer_batches) command += " " + std::to_string(batch);
  const auto output = run_command(command);
  if (!output)
    return unexpected(output.error().code, output.error().message + "; tools/bench/peers engine installs it");
  const json result = json::parse(*output, nullptr, /*allow_exceptions=*/false);
  if (!result.is_object() || !result.contains("rows") || !result["rows"].is_array()) {
    return unexpected(ErrorCode::io_error, script.string() + ": printed something else than its JSON");
  }
  bench.peer = "transformers " + result.value("version", "");
  for (const json& row : result["rows"]) {
    const double speed = row.value("tokens", 0.0) / row.value("seconds", 1.0);
    bench.peer_tok_s_of_batches.push_back(speed);
    if (speed > bench.peer_tok_s) {
      bench.peer_tok_s = speed;
      bench.peer_batch = row.value("batch", 0);
    }
  }
  return {};
}

void write_requests(const std::filesystem::path& path, std::span<const Trajectory> trajectories) {
  json requests = json::array();
  for (const Trajectory& trajectory : trajectories) {
    for (const Invocation& call : trajectory.invocations) {
      requests.push_back({{"prompt", call.prompt_token_ids}, {"length", call.response_token_ids.size()}});
    }
  }
  std::ofstream(path) << requests.dump();
}

/// The model without an end of sequence: on both sides a response ends at its length only.
Expected<Transformer> endless_model(const EngineBenchOptions& options) {
  if (options.model.empty()) return random_transformer(quickstart_student(), {.seed = options.seed});
  auto model = load_transformer(options.model);
  if (!model) return model;
  ModelConfig config = model->config();
  config.eos_token_ids.clear();
  Transformer endless(config, at::kFloat);
  MEMOPD_RETURN_IF_ERROR(load_weight_set(endless, to_weight_set(*model, 0, 0)));
  return endless;
}

}  // namespace

Expected<EngineBench> bench_engine(const EngineBenchOptions& options) {
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  const ScratchFolder folder;
  if (folder.path().empty()) return unexpected(ErrorCode::io_error, "no temporary folder for the model");
  std::int32_t vocab_size = 0;
  {
    const auto model = endless_model(options);
    if (!model) return unexpected(model.error());
    vocab_size = model->config().vocab_size;
    MEMOPD_RETURN_IF_ERROR(save_transformer(folder.path(), *model));
  }
  std::vector<CallLengths> lengths = memopd_like_lengths(options.seed);
  std::erase_if(lengths, [&](const CallLengths& call) { return call.trajectory >= options.num_trajectories; });
  const auto trajectories = trajectories_of(lengths, vocab_size, options.seed);
  const std::filesystem::path requests = folder.path() / "requests.json";
  write_requests(requests, trajectories);
  EngineBench bench;
  bench.model = options.model.empty() ? "quickstart" : options.model.string();
  bench.lengths = describe(lengths);
  MEMOPD_RETURN_IF_ERROR(measure_ours(folder.path(), trajectories, options, bench));
  std::error_code ignored;
  if (options.peer_python.empty() || !std::filesystem::exists(options.peer_python, ignored)) {
    bench.peer = "absent: tools/bench/peers engine installs it";
    return bench;
  }
  MEMOPD_RETURN_IF_ERROR(measure_peer(folder.path(), requests, options, bench));
  return bench;
}

std::string to_json(const EngineBench& bench) {
  return nlohmann::ordered_json{{"model", bench.model},
                                {"lengths", bench.lengths},
                                {"tokens", bench.tokens},
                                {"ours_tok_s", bench.ours_tok_s},
                                {"peer_tok_s", bench.peer_tok_s},
                                {"peer_batch", bench.peer_batch},
                                {"ratio", bench.ratio()},
                                {"ttft_ms", bench.ttft_ms},
                                {"cache_hit_frac", bench.cache_hit_frac},
                                {"prefill_frac", bench.prefill_frac},
                                {"decode_frac", bench.decode_frac},
                                {"decode_batch", bench.decode_batch},
                                {"peer", bench.peer},
                                {"peer_tok_s_of_batches", bench.peer_tok_s_of_batches}}
      .dump(2);
}

std::string to_table(const EngineBench& bench) {
  std::array<char, 512> text{};
  std::snprintf(
      text.data(), text.size(),
      "%s\n  %lld tokens   ours %.1f /s   peer %.1f /s at batch %d   ratio %.2f   (%s)\n"
      "  first token %.0f ms   prompt tokens found cached %.2f   time: steps with prompts %.2f, decoding %.2f of "
      "%.1f sequences\n",
      bench.model.c_str(), static_cast<long long>(bench.tokens), bench.ours_tok_s, bench.peer_tok_s, bench.peer_batch,
      bench.ratio(), bench.peer.c_str(), bench.ttft_ms, bench.cache_hit_frac, bench.prefill_frac, bench.decode_frac,
      bench.decode_batch);
  return bench.lengths + "\n" + text.data();
}

}  // namespace memopd
