#include "actors/run_state.hpp"

#include <exception>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace memopd {
namespace {

using Json = nlohmann::ordered_json;

RunState to_state(const Json& json, Summary summary) {
  RunState state;
  state.step = json.at("step").get<std::int32_t>();
  state.policy_version = json.at("policy_version").get<std::int64_t>();
  state.lineage = json.at("lineage").get<std::int64_t>();
  state.summary = std::move(summary);
  if (const Json& best = json.at("best"); !best.is_null()) {
    state.best = {best.at("step").get<std::int32_t>(), best.at("value").get<double>()};
  }
  for (const auto& [metric, values] : json.at("first_values").items()) {
    state.first_values[metric] = values.get<std::vector<double>>();
  }
  return state;
}

}  // namespace

std::string to_json(const RunState& state) {
  Json json = {
      {"step", state.step}, {"policy_version", state.policy_version}, {"lineage", state.lineage},
      {"best", nullptr},    {"first_values", Json::object()},         {"summary", Json::parse(to_json(state.summary))}};
  if (state.best) {
    json["best"] = {{"step", state.best->step}, {"value", state.best->value}};
  }
  for (const auto& [metric, values] : state.first_values) {
    json["first_values"][metric] = values;
  }
  return json.dump();
}

Expected<RunState> load_run_state(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / "state.json";
  std::ifstream file(path);
  if (!file) {
    return unexpected(ErrorCode::not_found, path.string() + ": no checkpoint there");
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    const Json run = Json::parse(text).at("run");
    auto summary = parse_summary(run.at("summary").dump());
    if (!summary) {
      return unexpected(summary.error().code, path.string() + ": " + summary.error().message);
    }
    return to_state(run, *std::move(summary));
  } catch (const std::exception& failure) {
    return unexpected(ErrorCode::parse_error, path.string() + ": " + failure.what());
  }
}

}  // namespace memopd
