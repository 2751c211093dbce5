#include "runtime/data/trajectory_id.hpp"

#include <array>
#include <charconv>

#include "runtime/base/random.hpp"

namespace memopd {

std::string to_string(const TrajectoryId& id) {
  return id.split + "." + std::to_string(id.step) + "." + std::to_string(id.task_index) + "." +
         std::to_string(id.sample);
}

Expected<TrajectoryId> parse_trajectory_id(std::string_view text) {
  const auto fail = [&] {
    return unexpected(ErrorCode::parse_error, "trajectory id \"" + std::string(text) +
                                                  "\": expected split.step.task_index.sample, as in train.12.3.0");
  };
  TrajectoryId id;
  std::string_view rest = text;
  std::array<std::int32_t*, 3> numbers = {&id.sample, &id.task_index, &id.step};
  for (std::int32_t* number : numbers) {
    const auto dot = rest.rfind('.');
    if (dot == std::string_view::npos) {
      return fail();
    }
    const std::string_view digits = rest.substr(dot + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *number);
    if (error != std::errc() || end != digits.data() + digits.size() || *number < 0) {
      return fail();
    }
    rest = rest.substr(0, dot);
  }
  if (rest.empty() || rest.find('.') != std::string_view::npos) {
    return fail();
  }
  id.split = std::string(rest);
  return id;
}

std::uint64_t trajectory_seed(std::uint64_t run_seed, const TrajectoryId& id) {
  return chain_seed(run_seed, {hash_name(id.split), static_cast<std::uint64_t>(id.step),
                               static_cast<std::uint64_t>(id.task_index), static_cast<std::uint64_t>(id.sample)});
}

std::uint64_t invocation_seed(std::uint64_t trajectory_seed, std::int32_t invocation_index) {
  return chain_seed(trajectory_seed, {hash_name("invocation"), static_cast<std::uint64_t>(invocation_index)});
}

}  // namespace memopd
