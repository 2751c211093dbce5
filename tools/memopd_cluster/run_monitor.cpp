#include "tools/memopd_cluster/run_monitor.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "runtime/telemetry/metrics.hpp"
#include "runtime/telemetry/metrics_tail.hpp"
#include "runtime/telemetry/monitor_access.hpp"
#include "runtime/telemetry/monitor_server.hpp"
#include "runtime/telemetry/monitor_store.hpp"

namespace memopd {
namespace fs = std::filesystem;

struct RunMonitor::State {
  State(const Config& run_config, fs::path run_folder)
      : config(run_config), folder(std::move(run_folder)), metrics(folder / "metrics.jsonl") {}

  Config config;
  fs::path folder;
  MetricsTail metrics;
  std::shared_ptr<MonitorStore> store;
  std::unique_ptr<MonitorServer> server;
  fs::file_time_type processes_time{};
  std::int64_t step = 0;

  [[nodiscard]] fs::path token_path() const { return folder / "monitor.token"; }
  void read_metrics();
  void read_processes();
};

void RunMonitor::State::read_metrics() {
  // A long history comes in pieces of bounded size.
  for (auto records = metrics.poll(); !records.empty(); records = metrics.poll()) {
    for (const MetricsRecord& record : records) {
      store->add_metrics(record.step, record.metrics, record.time_s);
      step = record.step;
    }
  }
}

void RunMonitor::State::read_processes() {
  const fs::path path = folder / "processes.json";
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error || time == processes_time) {
    return;
  }
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_discarded()) {
    processes_time = time;
    store->set_processes(json);
  }
}

RunMonitor::RunMonitor(std::unique_ptr<State> state) : state_(std::move(state)) {}

RunMonitor::~RunMonitor() {
  if (state_->server) {
    state_->server->stop();
    std::error_code error;
    fs::remove(state_->token_path(), error);
  }
}

Expected<std::unique_ptr<RunMonitor>> RunMonitor::start(const Config& config, const fs::path& run_folder) {
  auto state = std::make_unique<State>(config, run_folder);
  if (!config.monitor.address.empty()) {
    auto options = parse_monitor_address(config.monitor.address);
    if (!options) {
      return unexpected(options.error());
    }
    options->token = make_monitor_token();
    state->store = std::make_shared<MonitorStore>(config.monitor);
    auto server = MonitorServer::start(*options, state->store);
    if (!server) {
      return unexpected(server.error());
    }
    state->server = *std::move(server);
    MEMOPD_RETURN_IF_ERROR(write_private_file(state->token_path(), state->server->url() + "\n"));
  }
  return std::unique_ptr<RunMonitor>(new RunMonitor(std::move(state)));
}

LogSink RunMonitor::sink(LogSink next) const {
  return [store = state_->store, next = std::move(next)](const LogEvent& event) {
    if (store && event.level >= LogLevel::info) {
      store->add_event(event);
    }
    if (next) {
      next(event);
    }
  };
}

void RunMonitor::update(const nlohmann::json& topology) {
  if (!state_->server) {
    return;
  }
  state_->store->set_topology(topology);
  state_->read_metrics();
  state_->read_processes();
  const auto failure = topology.is_object() ? topology.find("first_failure") : topology.end();
  const bool has_failed = topology.is_object() && failure != topology.end() && failure->is_object();
  state_->store->set_status({{"run", state_->config.run.name},
                             {"step", state_->step},
                             {"num_steps", state_->config.run.num_steps},
                             {"updated_unix_ms", static_cast<std::int64_t>(1000 * unix_time_s())},
                             {"verdict", has_failed ? "failed" : "running"}});
}

std::string RunMonitor::url() const { return state_->server ? state_->server->url() : std::string(); }

}  // namespace memopd
