#include "tools/bench/runtime_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/actor/actor.hpp"
#include "runtime/cluster/head.hpp"

namespace memopd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{120'000};

struct BenchPayload {
  std::vector<std::byte> bytes;
};
MEMOPD_MESSAGE(BenchPayload, 1, bytes)
struct BenchDone {
  std::int64_t size = 0;
};
MEMOPD_MESSAGE(BenchDone, 1, size)
/// Ask `peer` `count` times, `window` at a time; answered with the seconds of all and of each.
struct BenchDrive {
  std::string peer;
  std::int32_t rank = 0;
  std::int32_t count = 0;
  std::int32_t window = 1;
};
MEMOPD_MESSAGE(BenchDrive, 1, peer, rank, count, window)
struct BenchTimes {
  double seconds = 0;
  std::vector<double> each;  ///< seconds
};
MEMOPD_MESSAGE(BenchTimes, 1, seconds, each)
struct BenchPut {
  std::int64_t size = 0;
};
MEMOPD_MESSAGE(BenchPut, 1, size)
struct BenchPlaced {
  ObjectRef ref;
  double seconds = 0;
};
MEMOPD_MESSAGE(BenchPlaced, 1, ref, seconds)
struct BenchGet {
  ObjectRef ref;
};
MEMOPD_MESSAGE(BenchGet, 1, ref)

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class BenchActor final : public Actor {
  void setup() override {
    on(&BenchActor::echo);
    on(&BenchActor::drive);
    on(&BenchActor::put);
    on(&BenchActor::get);
  }
  Expected<BenchDone> echo(const BenchPayload& payload) {
    return BenchDone{static_cast<std::int64_t>(payload.bytes.size())};
  }

  Later<BenchTimes> drive(const BenchDrive& request) {
    drive_ = request;
    target_ = (*cluster().find(request.peer))[static_cast<std::size_t>(request.rank)];
    num_open_ = num_sent_ = 0;
    times_ = {};
    done_ = make_promise<BenchTimes>();
    began_ = Clock::now();
    auto later = done_->later();
    send();
    return later;
  }
  void send() {
    while (num_open_ < drive_.window && num_sent_ < drive_.count) {
      ++num_open_;
      ++num_sent_;
      ask<BenchDone>(target_, BenchPayload{std::vector<std::byte>(1024)}, kPatience)
          .then([this, begin = Clock::now()](const Expected<BenchDone>& done) {
            --num_open_;
            if (!done) {
              done_->deliver(unexpected(done.error()));
              return;
            }
            times_.each.push_back(since(begin));
            if (num_open_ == 0 && num_sent_ == drive_.count) {
              times_.seconds = since(began_);
              times_.each.resize(std::min<std::size_t>(times_.each.size(), 20'000));
              done_->deliver(std::move(times_));
            } else {
              send();
            }
          });
    }
  }

  Expected<BenchPlaced> put(const BenchPut& request) {
    const std::vector<std::byte> bytes(static_cast<std::size_t>(request.size), std::byte{7});
    const auto begin = Clock::now();
    const ObjectRef ref = objects().put_blob(bytes, Scope{});
    return BenchPlaced{ref, since(begin)};
  }
  /// Reads every byte.
  Expected<BenchPlaced> get(const BenchGet& request) {
    const auto begin = Clock::now();
    const auto blob = objects().get_blob(request.ref);
    if (!blob) {
      return unexpected(blob.error());
    }
    std::uint64_t sum = 0;
    const auto* const words = reinterpret_cast<const std::uint64_t*>(blob->bytes.data());
    for (std::size_t i = 0; i < blob->bytes.size() / sizeof(std::uint64_t); ++i) {
      sum += words[i];
    }
    return BenchPlaced{ObjectRef{sum, 0}, since(begin)};
  }

  BenchDrive drive_;
  ActorRef target_;
  BenchTimes times_;
  std::optional<Promise<BenchTimes>> done_;
  Clock::time_point began_;
  std::int32_t num_open_ = 0;
  std::int32_t num_sent_ = 0;
};
MEMOPD_REGISTER_ACTOR("bench_runtime", BenchActor)

double median(std::vector<double> values, double at = 0.5) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<std::size_t>(at * static_cast<double>(values.size() - 1))];
}

using Figures = std::map<std::string, std::vector<double>>;

Expected<double> time_to_first_call(Cluster& cluster, const SpawnOptions& options, const std::string& group) {
  const auto begin = Clock::now();
  auto actors = cluster.spawn("bench_runtime", options, group);
  const auto done = cluster.ask<BenchDone>(actors[0], BenchPayload{}, kPatience).get();
  MEMOPD_RETURN_IF_ERROR(done);
  return since(begin);
}

Expected<void> measure_calls(Cluster& cluster, const RuntimeBenchOptions& options, Figures& figures) {
  const auto near = *cluster.find("near");
  const std::int32_t count = options.num_calls;
  auto alone = cluster.ask<BenchTimes>(near[0], BenchDrive{"far", 0, count, 1}, kPatience).get();
  MEMOPD_RETURN_IF_ERROR(alone);
  figures["call_p50_us"].push_back(median(alone->each) * 1e6);
  figures["call_p99_us"].push_back(median(alone->each, 0.99) * 1e6);
  auto many = cluster.ask<BenchTimes>(near[0], BenchDrive{"far", 0, count * 4, 64}, kPatience).get();
  MEMOPD_RETURN_IF_ERROR(many);
  figures["calls_per_s_1_to_1"].push_back(count * 4 / many->seconds);
  std::vector<Future<BenchTimes>> pairs;
  const auto begin = Clock::now();
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    pairs.push_back(
        cluster.ask<BenchTimes>(near[static_cast<std::size_t>(rank)], BenchDrive{"far", rank, count, 64}, kPatience));
  }
  for (auto& pair : pairs) {
    const auto times = pair.get();
    MEMOPD_RETURN_IF_ERROR(times);
  }
  figures["calls_per_s_4_to_4"].push_back(4 * count / since(begin));
  return {};
}

Expected<void> measure_objects(Cluster& cluster, Figures& figures) {
  const auto near = *cluster.find("near");
  const auto far = *cluster.find("far");
  for (const auto& [name, size] : std::map<std::string, std::int64_t>{{"1_mib", 1 << 20}, {"64_mib", 64 << 20}}) {
    for (int i = 0; i < 5; ++i) {
      const auto placed = cluster.ask<BenchPlaced>(near[0], BenchPut{size}, kPatience).get();
      MEMOPD_RETURN_IF_ERROR(placed);
      const auto read = cluster.ask<BenchPlaced>(far[0], BenchGet{placed->ref}, kPatience).get();
      MEMOPD_RETURN_IF_ERROR(read);
      figures["put_gb_per_s_" + name].push_back(static_cast<double>(size) / placed->seconds / 1e9);
      figures["get_gb_per_s_" + name].push_back(static_cast<double>(size) / read->seconds / 1e9);
    }
    cluster.objects().release_scope(Scope{});
  }
  return {};
}

Expected<void> measure(const RuntimeBenchOptions& options, Figures& figures) {
  const auto begin = Clock::now();
  auto cluster = make_process_cluster({});
  MEMOPD_RETURN_IF_ERROR(cluster);
  auto first = time_to_first_call(**cluster, {.process = "own"}, "first");
  MEMOPD_RETURN_IF_ERROR(first);
  figures["start_to_first_call_ms"].push_back(since(begin) * 1000);
  auto next = time_to_first_call(**cluster, {.process = "own"}, "next");
  MEMOPD_RETURN_IF_ERROR(next);
  figures["actor_creation_ms"].push_back(*next * 1000);
  for (const char* group : {"near", "far"}) {
    MEMOPD_RETURN_IF_ERROR((*cluster)->spawn("bench_runtime", {.count = 4, .process = "own"}, group));
  }
  MEMOPD_RETURN_IF_ERROR((*cluster)->wait_until_started(60s));
  MEMOPD_RETURN_IF_ERROR(measure_calls(**cluster, options, figures));
  return measure_objects(**cluster, figures);
}

/// What a launcher does with reports, until destroyed: the topology as JSON and the processes, twice a second.
class Collector {
 public:
  explicit Collector(HeadCluster& cluster) : thread_([this, &cluster] { collect(cluster); }) {}
  ~Collector() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

 private:
  void collect(HeadCluster& cluster) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, 500ms, [this] { return is_over_; })) {
      const nlohmann::json json = cluster.topology();
      size_ += json.dump(1).size() + cluster.processes().size();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::size_t size_ = 0;  // so that nothing is left out as unused
  std::thread thread_;
};

struct TelemetryTimes {
  double call_p50_us = 0;
  double calls_per_s = 0;
};

Expected<TelemetryTimes> measure_telemetry(const RuntimeBenchOptions& options, bool is_on) {
  ProcessClusterOptions settings;
  settings.report_interval = is_on ? settings.report_interval : 0ms;
  auto cluster = make_process_cluster(settings);
  MEMOPD_RETURN_IF_ERROR(cluster);
  for (const char* group : {"near", "far"}) {
    MEMOPD_RETURN_IF_ERROR((*cluster)->spawn("bench_runtime", {.process = "own"}, group));
  }
  MEMOPD_RETURN_IF_ERROR((*cluster)->wait_until_started(60s));
  const auto collector = is_on ? std::make_unique<Collector>(**cluster) : nullptr;
  const ActorRef near = (*(*cluster)->find("near"))[0];
  const std::int32_t count = options.num_calls;
  auto warm = (*cluster)->ask<BenchTimes>(near, BenchDrive{"far", 0, count, 64}, kPatience).get();
  MEMOPD_RETURN_IF_ERROR(warm);
  auto alone = (*cluster)->ask<BenchTimes>(near, BenchDrive{"far", 0, count, 1}, kPatience).get();
  MEMOPD_RETURN_IF_ERROR(alone);
  auto many = (*cluster)->ask<BenchTimes>(near, BenchDrive{"far", 0, count * 16, 64}, kPatience).get();
  MEMOPD_RETURN_IF_ERROR(many);
  return TelemetryTimes{median(alone->each) * 1e6, count * 16 / many->seconds};
}

/// On and off by turns, who begins too; the cost is that of a pair, so that what drifts hits both sides alike.
Expected<void> measure_telemetry_cost(const RuntimeBenchOptions& options, Figures& figures) {
  for (std::int32_t pair = 0; pair < options.num_telemetry_pairs; ++pair) {
    TelemetryTimes times[2];
    for (const bool is_on : {pair % 2 == 0, pair % 2 != 0}) {
      auto measured = measure_telemetry(options, is_on);
      MEMOPD_RETURN_IF_ERROR(measured);
      times[is_on ? 1 : 0] = *measured;
      const std::string side = is_on ? "_on" : "_off";
      figures["telemetry_call_p50_us" + side].push_back(measured->call_p50_us);
      figures["telemetry_calls_per_s" + side].push_back(measured->calls_per_s);
    }
    figures["telemetry_cost_percent_p50"].push_back((times[1].call_p50_us / times[0].call_p50_us - 1) * 100);
    figures["telemetry_cost_percent_calls"].push_back((times[0].calls_per_s / times[1].calls_per_s - 1) * 100);
  }
  return {};
}

/// JSON {name: value} of the other side; empty without it.
nlohmann::json ask_peer(const RuntimeBenchOptions& options) {
  if (options.num_repetitions == 0 || options.peer_python.empty() || !std::filesystem::exists(options.peer_python)) {
    return nlohmann::json::object();
  }
  const std::string command = fmt::format("'{}' '{}' {} {} 2>/dev/null", options.peer_python, options.peer_script,
                                          options.num_calls, options.num_repetitions);
  std::string text;
  if (FILE* const pipe = popen(command.c_str(), "r"); pipe != nullptr) {
    char buffer[4096];
    while (const std::size_t size = fread(buffer, 1, sizeof buffer, pipe)) {
      text.append(buffer, size);
    }
    pclose(pipe);
  }
  // Its last line; Ray itself may have printed before it.
  const std::size_t begin = text.rfind("\n{") == std::string::npos ? 0 : text.rfind("\n{") + 1;
  const auto json = nlohmann::json::parse(text.substr(begin), nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

bool is_higher_better(const std::string& name) { return name.find("_per_s") != std::string::npos; }

}  // namespace

std::optional<double> RuntimeBenchRow::ratio() const {
  if (!ray || *ray <= 0 || ours <= 0) {
    return std::nullopt;
  }
  return is_higher_better ? ours / *ray : *ray / ours;
}

Expected<std::vector<RuntimeBenchRow>> bench_runtime(const RuntimeBenchOptions& options) {
  Figures figures;
  for (std::int32_t i = 0; i < options.num_repetitions; ++i) {
    MEMOPD_RETURN_IF_ERROR(measure(options, figures));
  }
  MEMOPD_RETURN_IF_ERROR(measure_telemetry_cost(options, figures));
  const nlohmann::json peer = ask_peer(options);
  std::vector<RuntimeBenchRow> rows;
  for (const auto& [name, values] : figures) {
    RuntimeBenchRow row{name, median(values), std::nullopt, is_higher_better(name)};
    if (peer.contains(name) && peer[name].is_number()) {
      row.ray = peer[name].get<double>();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string to_json(const std::vector<RuntimeBenchRow>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const RuntimeBenchRow& row : rows) {
    json.push_back({{"name", row.name},
                    {"ours", row.ours},
                    {"ray", row.ray ? nlohmann::ordered_json(*row.ray) : nullptr},
                    {"ratio", row.ratio() ? nlohmann::ordered_json(*row.ratio()) : nullptr}});
  }
  return json.dump(1);
}

std::string to_table(const std::vector<RuntimeBenchRow>& rows) {
  std::string text = fmt::format("{:<28} {:>12} {:>12} {:>8}", "", "ours", "ray", "ratio");
  const auto print = [](const std::optional<double>& value) { return value ? fmt::format("{:.4g}", *value) : "-"; };
  for (const RuntimeBenchRow& row : rows) {
    text += fmt::format("\n{:<28} {:>12.4g} {:>12} {:>8}", row.name, row.ours, print(row.ray), print(row.ratio()));
  }
  if (std::none_of(rows.begin(), rows.end(), [](const RuntimeBenchRow& row) { return row.ray.has_value(); })) {
    text += "\nno Ray beside it: tools/bench/peers installs it";
  }
  return text;
}

}  // namespace memopd
