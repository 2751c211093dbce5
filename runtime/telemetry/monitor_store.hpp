// What a monitor shows of a run: its newest topology, processes and status, and as much of its past as fits.
//
// MS-1  bounded  held bytes never exceed kMaxHeldBytes, whatever the run says and however long it lasts.
// MS-2  counted  what no longer is held is known by number: sequence numbers have no gaps, readers see what they missed.
//
// Time is that of the records: the newest decides what is too old, no clock is read. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

class MonitorStore {
 public:
  static constexpr std::int64_t kMaxEventBytes = 4096;                      ///< of one event; longer values are cut
  static constexpr std::int64_t kMaxMetricsBytes = 64 * 1024;               ///< of one record; a longer one is left out
  static constexpr std::int64_t kMaxHistoryBytes = std::int64_t{32} << 20;  ///< of all events; and of all metrics
  static constexpr std::int64_t kMaxDocumentBytes = std::int64_t{16} << 20;  ///< of topology, processes and status each
  static constexpr std::int64_t kMaxHeldBytes = 2 * kMaxHistoryBytes + 3 * kMaxDocumentBytes;

  /// A document as text and how often it has been set; both the same until it is set again.
  struct Document {
    std::uint64_t version = 0;                ///< 0 = never set
    std::shared_ptr<const std::string> json;  ///< never null; "null" before the first
  };
  /// Records after a sequence number, oldest first, each one JSON object that starts with "seq".
  struct Page {
    std::vector<std::shared_ptr<const std::string>> records;
    std::int64_t next = 0;        ///< sequence number of the last record given or missed
    std::int64_t num_missed = 0;  ///< asked for, but no longer held
  };

  /// @param limits  history_s and max_events are used; max_events bounds the metrics records as well
  explicit MonitorStore(const MonitorConfig& limits);

  /// As runtime/actor/topology.hpp writes it. Non-finite numbers become null. One above kMaxDocumentBytes is replaced by
  /// {"actors": [], "edges": [], "num_actors": .., "too_large_bytes": ..}.
  void set_topology(const nlohmann::json& topology);
  void set_processes(const nlohmann::json& processes);
  void set_status(const nlohmann::json& status);

  void add_event(const LogEvent& event);
  /// @param time_s  seconds since 1970
  void add_metrics(std::int64_t step, const std::map<std::string, double>& metrics, double time_s);

  [[nodiscard]] Document topology() const;
  [[nodiscard]] Document processes() const;
  [[nodiscard]] Document status() const;

  /// At most `max_records`, the oldest of those after `sequence`.
  [[nodiscard]] Page events_after(std::int64_t sequence, std::size_t max_records) const;
  [[nodiscard]] Page metrics_after(std::int64_t sequence, std::size_t max_records) const;
  /// Records of steps >= `step`; the newest `max_records` of them.
  [[nodiscard]] Page metrics_from(std::int64_t step, std::size_t max_records) const;

  /// Text of Prometheus: step, every metric of the newest record, actors, mailboxes and time by group, events by level.
  [[nodiscard]] std::string prometheus() const;

  /// Waits until something was set or added since `seen`, or `limit` has passed. @return what to pass the next time
  [[nodiscard]] std::uint64_t wait_for_change(std::uint64_t seen, std::chrono::milliseconds limit) const;

  /// Texts held now.
  [[nodiscard]] std::int64_t held_bytes() const;

 private:
  struct Record {
    std::int64_t time_ms = 0;
    std::int64_t step = 0;
    std::shared_ptr<const std::string> json;
  };
  /// The newest records of a stream; sequence numbers count from 1.
  struct History {
    std::deque<Record> records;
    std::int64_t next_sequence = 1;  ///< of the record to come
    std::int64_t size_bytes = 0;
    [[nodiscard]] std::int64_t first_sequence() const {
      return next_sequence - static_cast<std::int64_t>(records.size());
    }
  };
  struct GroupLoad {
    std::map<std::string, std::int64_t> actors_by_state;
    std::int64_t mailbox_depth = 0;
    std::int64_t num_handled = 0;
    double busy_s = 0;
  };

  void set(Document& document, std::string json);
  void append(History& history, Record record);
  [[nodiscard]] static Page page_after(const History& history, std::int64_t sequence, std::size_t max_records);

  std::int64_t history_ms_;
  std::size_t max_records_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t num_changes_ = 0;
  Document topology_;
  Document processes_;
  Document status_;
  History events_;
  History metrics_;
  std::map<std::string, GroupLoad> groups_;
  std::map<std::string, std::int64_t> events_by_level_;
  std::int64_t newest_step_ = 0;
  std::map<std::string, double> newest_metrics_;
};

}  // namespace memopd
