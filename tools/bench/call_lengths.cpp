#include "tools/bench/call_lengths.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string_view>

#include "runtime/base/random.hpp"

namespace memopd {
namespace {

constexpr std::string_view kHeader = "task\ttrajectory\tcall\tinstruction\tquestion\tkept\tobservation\tresponse";
constexpr std::int32_t kMaxLength = 1 << 20;

/// Whether `line` is 8 numbers and nothing else.
std::optional<CallLengths> parse_line(std::string_view line) {
  std::array<std::int32_t, 8> fields{};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), fields[i]);
    if (error != std::errc() || fields[i] < 0 || fields[i] > kMaxLength) {
      return std::nullopt;
    }
    line.remove_prefix(static_cast<std::size_t>(end - line.data()));
    if (i + 1 < fields.size()) {
      if (line.empty() || line.front() != '\t') {
        return std::nullopt;
      }
      line.remove_prefix(1);
    }
  }
  if (!line.empty()) {
    return std::nullopt;
  }
  return CallLengths{fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6], fields[7]};
}

/// What is wrong with `call` after `previous` (null for the first), or nothing.
std::string problem_of(const CallLengths& call, const CallLengths* previous) {
  const bool continues = previous != nullptr && call.trajectory == previous->trajectory;
  const std::int32_t expected_call = continues ? previous->call + 1 : 0;
  const std::int32_t max_kept = continues ? previous->response : 0;
  if (call.call != expected_call) {
    return "call is " + std::to_string(call.call) + ", allowed " + std::to_string(expected_call);
  }
  if (call.kept > max_kept) {
    return "kept is " + std::to_string(call.kept) + ", allowed at most " + std::to_string(max_kept);
  }
  if (call.instruction + call.question < 1 || call.response < 1) {
    return "question and response must have tokens";
  }
  return {};
}

std::int32_t lognormal(SplitMix& random, double median) {
  return std::max(1, static_cast<std::int32_t>(std::lround(median * std::exp(0.3 * random.normal()))));
}

using Ids = std::vector<std::int32_t>;

/// `count` ids of the stream that `name` and the numbers name: the same wherever the same part stands.
void append_ids(Ids& ids, std::int32_t count, std::uint64_t stream, std::int32_t vocab_size) {
  SplitMix random(stream);
  for (std::int32_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab_size))));
  }
}

std::uint64_t stream_of(std::uint64_t seed, std::string_view name, std::int32_t a, std::int32_t b = 0) {
  return chain_seed(seed, {hash_name(name), static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)});
}

}  // namespace

Expected<std::vector<CallLengths>> read_call_lengths(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) {
    return unexpected(ErrorCode::not_found, file.string() + ": cannot be read");
  }
  std::vector<CallLengths> lengths;
  bool has_header = false;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string place = file.string() + ":" + std::to_string(number) + ": ";
    if (line.empty() || line.front() == '#') {
      continue;
    }
    if (!has_header) {
      if (line != kHeader) {
        return unexpected(ErrorCode::parse_error,
                          place + "the header is \"" + line + "\", allowed \"" + std::string(kHeader) + "\"");
      }
      has_header = true;
      continue;
    }
    const auto call = parse_line(line);
    if (!call) {
      return unexpected(ErrorCode::parse_error, place + "\"" + line + "\" is not 8 tab-separated numbers from 0 to " +
                                                    std::to_string(kMaxLength));
    }
    if (const std::string problem = problem_of(*call, lengths.empty() ? nullptr : &lengths.back()); !problem.empty()) {
      return unexpected(ErrorCode::parse_error, place + problem);
    }
    lengths.push_back(*call);
  }
  if (lengths.empty()) {
    return unexpected(ErrorCode::parse_error, file.string() + ": holds no calls");
  }
  return lengths;
}

std::vector<CallLengths> memopd_like_lengths(std::uint64_t seed) {
  SplitMix random(stream_of(seed, "memopd_like", 0));
  std::vector<CallLengths> lengths;
  for (std::int32_t trajectory = 0; trajectory < 8; ++trajectory) {
    const std::int32_t question = lognormal(random, 60);
    const auto num_calls = static_cast<std::int32_t>(2 + random.below(5));
    std::int32_t kept = 0;
    for (std::int32_t call = 0; call < num_calls; ++call) {
      const std::int32_t observation = call == 0 ? 0 : lognormal(random, 430);
      const std::int32_t response = lognormal(random, 120);
      lengths.push_back({trajectory, trajectory, call, 300, question, kept, observation, response});
      kept = response;
    }
  }
  return lengths;
}

std::vector<Trajectory> trajectories_of(const std::vector<CallLengths>& lengths, std::int32_t vocab_size,
                                        std::uint64_t seed) {
  std::vector<Trajectory> trajectories;
  for (const CallLengths& call : lengths) {
    if (call.call == 0) {
      trajectories.emplace_back().id = {"bench", 0, call.task, call.trajectory};
    }
    Trajectory& trajectory = trajectories.back();
    Invocation invocation;
    invocation.trajectory_id = trajectory.id;
    invocation.invocation_index = call.call;
    Ids& prompt = invocation.prompt_token_ids;
    append_ids(prompt, call.instruction, stream_of(seed, "instruction", 0), vocab_size);
    append_ids(prompt, call.question, stream_of(seed, "question", call.task), vocab_size);
    if (call.call > 0) {
      const Ids& last = trajectory.invocations.back().response_token_ids;
      prompt.insert(prompt.end(), last.end() - call.kept, last.end());
    }
    append_ids(prompt, call.observation, stream_of(seed, "observation", call.trajectory, call.call), vocab_size);
    append_ids(invocation.response_token_ids, call.response, stream_of(seed, "response", call.trajectory, call.call),
               vocab_size);
    trajectory.invocations.push_back(std::move(invocation));
  }
  return trajectories;
}

std::string describe(const std::vector<CallLengths>& lengths) {
  std::int64_t num_trajectories = 0, tokens = 0, responses = 0;
  std::int32_t max_calls = 0, max_tokens = 0, max_response = 0;
  for (const CallLengths& call : lengths) {
    const std::int32_t size = call.instruction + call.question + call.kept + call.observation + call.response;
    num_trajectories += call.call == 0 ? 1 : 0;
    tokens += size;
    responses += call.response;
    max_calls = std::max(max_calls, call.call + 1);
    max_tokens = std::max(max_tokens, size);
    max_response = std::max(max_response, call.response);
  }
  const auto num_calls = static_cast<double>(lengths.size());
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << num_trajectories << " trajectories, " << lengths.size()
       << " calls: " << num_calls / static_cast<double>(num_trajectories) << " calls a trajectory (max " << max_calls
       << "), " << static_cast<double>(tokens) / num_calls << " tokens a call (max " << max_tokens << "), "
       << static_cast<double>(responses) / num_calls << " response tokens a call (max " << max_response << ")";
  return text.str();
}

}  // namespace memopd
