#include "tools/bench/broadcast_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/actor/actor.hpp"
#include "runtime/cluster/head.hpp"
#include "runtime/cluster/reach.hpp"
#include "runtime/cluster/remote_shell.hpp"
#include "tools/bench/raw_tcp.hpp"

namespace memopd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{120'000};
constexpr const char* kActor = "bench_broadcast";
constexpr const char* kHere = "here";

struct BroadcastPut {
  std::int64_t size = 0;
};
MEMOPD_MESSAGE(BroadcastPut, 1, size)
struct BroadcastPlaced {
  ObjectRef ref;
};
MEMOPD_MESSAGE(BroadcastPlaced, 1, ref)
struct BroadcastGet {
  ObjectRef ref;
};
MEMOPD_MESSAGE(BroadcastGet, 1, ref)
struct BroadcastServe {
  std::int64_t size = 0;
  std::int32_t num_readers = 0;
};
MEMOPD_MESSAGE(BroadcastServe, 1, size, num_readers)
struct BroadcastServed {
  std::uint16_t port = 0;
};
MEMOPD_MESSAGE(BroadcastServed, 1, port)
struct BroadcastRead {
  std::string host;
  std::uint16_t port = 0;
  std::int64_t size = 0;
};
MEMOPD_MESSAGE(BroadcastRead, 1, host, port, size)

class BroadcastActor final : public Actor {
  void setup() override {
    on(&BroadcastActor::put);
    on(&BroadcastActor::get);
    on(&BroadcastActor::serve);
    on(&BroadcastActor::read);
  }
  Expected<BroadcastPlaced> put(const BroadcastPut& request) {
    const std::vector<std::byte> bytes(static_cast<std::size_t>(request.size), std::byte{7});
    return BroadcastPlaced{objects().put_blob(bytes, Scope{})};
  }
  Expected<void> get(const BroadcastGet& request) {
    const auto blob = objects().get_blob(request.ref);
    MEMOPD_RETURN_IF_ERROR(blob);
    return {};
  }
  Expected<BroadcastServed> serve(const BroadcastServe& request) {
    const auto port = serve_raw(static_cast<std::size_t>(request.size), request.num_readers);
    MEMOPD_RETURN_IF_ERROR(port);
    return BroadcastServed{*port};
  }
  Expected<void> read(const BroadcastRead& request) {
    return read_raw(request.host, request.port, static_cast<std::size_t>(request.size));
  }
};
MEMOPD_REGISTER_ACTOR(kActor, BroadcastActor)

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// One writer here and one reader on each other node.
struct Ring {
  std::unique_ptr<HeadCluster> cluster;
  ActorRef writer;
  std::vector<ActorRef> readers;
  std::string writer_host;

  /// Seconds until the first `num_readers` have answered `message`.
  template <class Message>
  Expected<double> time_of(const Message& message, std::int32_t num_readers) const {
    const auto begin = Clock::now();
    std::vector<Future<void>> answers;
    for (std::int32_t i = 0; i < num_readers; ++i) {
      answers.push_back(cluster->ask<void>(readers[static_cast<std::size_t>(i)], message, kPatience));
    }
    for (auto& answer : answers) {
      const auto done = answer.get();
      MEMOPD_RETURN_IF_ERROR(done);
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  [[nodiscard]] Expected<double> time_objects(std::int64_t size, std::int32_t num_readers) const {
    const auto placed = cluster->ask<BroadcastPlaced>(writer, BroadcastPut{size}, kPatience).get();
    MEMOPD_RETURN_IF_ERROR(placed);
    auto seconds = time_of(BroadcastGet{placed->ref}, num_readers);
    cluster->objects().release_scope(Scope{});
    return seconds;
  }
  [[nodiscard]] Expected<double> time_raw(std::int64_t size, std::int32_t num_readers) const {
    const auto served = cluster->ask<BroadcastServed>(writer, BroadcastServe{size, num_readers}, kPatience).get();
    MEMOPD_RETURN_IF_ERROR(served);
    return time_of(BroadcastRead{writer_host, served->port, size}, num_readers);
  }
};

ProcessClusterOptions options_of(const BroadcastBenchOptions& options, bool is_encrypted) {
  ProcessClusterOptions cluster;
  cluster.links.encrypt_bulk = is_encrypted;
  cluster.nodes = {{kHere, 8, 0, {kHere}}};
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const std::string& host : options.hosts) {
    cluster.nodes.push_back({host, 8, 0, {host}});
    cluster.remote[host] = {ssh_command(host, {program, "memopd-agent", "agent/" + host}), host};
  }
  if (options.hosts.empty()) {
    cluster.links.tcp_host = "127.0.0.1";
    for (std::int32_t i = 1; i <= options.max_nodes; ++i) {
      const std::string name = "node" + std::to_string(i);
      cluster.nodes.push_back({name, 8, 0, {name}});
    }
  }
  return cluster;
}

Expected<Ring> start_ring(const BroadcastBenchOptions& options, bool is_encrypted) {
  const ProcessClusterOptions cluster_options = options_of(options, is_encrypted);
  auto cluster = make_process_cluster(cluster_options);
  MEMOPD_RETURN_IF_ERROR(cluster);
  Ring ring{*std::move(cluster), {}, {}, {}};
  MEMOPD_RETURN_IF_ERROR(ring.cluster->wait_for_nodes(kPatience));
  for (const NodeCapacity& node : cluster_options.nodes) {
    const auto group = ring.cluster->spawn(kActor, {.process = "own", .labels = node.name}, "bench_" + node.name);
    MEMOPD_RETURN_IF_ERROR(group);
    if (node.name == kHere) {
      ring.writer = (*group)[0];
    } else {
      ring.readers.push_back((*group)[0]);
    }
  }
  MEMOPD_RETURN_IF_ERROR(ring.cluster->wait_until_started(kPatience));
  for (const ProcessView& process : ring.cluster->processes()) {
    if (process.entry.name == std::string("bench_") + kHere + "/0") {
      ring.writer_host = host_of_endpoint(process.entry.endpoints.back());
    }
  }
  return ring;
}

Expected<void> check_options(const BroadcastBenchOptions& options) {
  const bool has_small = std::any_of(options.sizes_mib.begin(), options.sizes_mib.end(), [](auto s) { return s < 1; });
  if (options.max_nodes < 1 || options.num_repetitions < 1 || has_small) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("{} nodes, {} repetitions, sizes in MiB: each is at least 1", options.max_nodes,
                                  options.num_repetitions));
  }
  for (const std::string& host : options.hosts) {
    MEMOPD_RETURN_IF_ERROR(check_address(host));
  }
  return {};
}

/// The three take turns, so that what else the machine does hits all alike.
Expected<BroadcastBenchRow> measure(const Ring& plain, const Ring& encrypted, std::int64_t size_mib, std::int32_t nodes,
                                    std::int32_t num_repetitions) {
  const std::int64_t size = size_mib << 20;
  std::vector<double> ours;
  std::vector<double> raw;
  std::vector<double> curve;
  for (std::int32_t i = 0; i < num_repetitions; ++i) {
    const std::pair<std::vector<double>*, Expected<double>> times[] = {{&ours, plain.time_objects(size, nodes)},
                                                                       {&raw, plain.time_raw(size, nodes)},
                                                                       {&curve, encrypted.time_objects(size, nodes)}};
    for (const auto& [into, seconds] : times) {
      MEMOPD_RETURN_IF_ERROR(seconds);
      into->push_back(static_cast<double>(size) * nodes / *seconds / 1e6);
    }
  }
  return BroadcastBenchRow{fmt::format("{}_mib", size_mib), nodes, median(ours), median(raw), median(curve)};
}

}  // namespace

Expected<std::vector<BroadcastBenchRow>> bench_broadcast(const BroadcastBenchOptions& options) {
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  const auto plain = start_ring(options, false);
  MEMOPD_RETURN_IF_ERROR(plain);
  const auto encrypted = start_ring(options, true);
  MEMOPD_RETURN_IF_ERROR(encrypted);
  std::vector<BroadcastBenchRow> rows;
  const auto max_nodes = std::min(options.max_nodes, static_cast<std::int32_t>(plain->readers.size()));
  for (const std::int64_t size_mib : options.sizes_mib) {
    for (std::int32_t nodes = 1; nodes <= max_nodes; ++nodes) {
      auto row = measure(*plain, *encrypted, size_mib, nodes, options.num_repetitions);
      MEMOPD_RETURN_IF_ERROR(row);
      rows.push_back(*std::move(row));
    }
  }
  return rows;
}

std::string to_json(const std::vector<BroadcastBenchRow>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const BroadcastBenchRow& row : rows) {
    json.push_back({{"name", row.name},
                    {"nodes", row.nodes},
                    {"ours_mb_s", row.ours_mb_s},
                    {"raw_tcp_mb_s", row.raw_tcp_mb_s},
                    {"ratio", row.ratio()},
                    {"encrypted_mb_s", row.encrypted_mb_s}});
  }
  return json.dump(1);
}

std::string to_table(const std::vector<BroadcastBenchRow>& rows) {
  std::string text = fmt::format("{:<10} {:>6} {:>10} {:>12} {:>8} {:>15}", "", "nodes", "ours MB/s", "raw TCP MB/s",
                                 "ratio", "encrypted MB/s");
  for (const BroadcastBenchRow& row : rows) {
    text += fmt::format("\n{:<10} {:>6} {:>10.0f} {:>12.0f} {:>8.2f} {:>15.0f}", row.name, row.nodes, row.ours_mb_s,
                        row.raw_tcp_mb_s, row.ratio(), row.encrypted_mb_s);
  }
  return text;
}

}  // namespace memopd
