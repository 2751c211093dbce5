#include "runtime/telemetry/monitor_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/telemetry/log_files.hpp"

namespace memopd {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFieldBytes = 512;
constexpr std::size_t kMaxFields = 64;
constexpr std::size_t kMaxGroups = 256;
// What a record costs beside its text: the deque's slot, the shared block, the string.
constexpr std::int64_t kRecordOverheadBytes = 128;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string cut(std::string text, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    text.resize(max_bytes);
    text += "..";
  }
  return text;
}

/// {"seq":7, and the rest of `line`, a JSON object without line break.
std::string with_sequence(std::int64_t sequence, std::string_view line) {
  return fmt::format("{{\"seq\":{},{}", sequence, line.substr(1));
}

std::string event_text(std::int64_t sequence, LogEvent event) {
  event.component = cut(std::move(event.component), kMaxFieldBytes);
  event.name = cut(std::move(event.name), kMaxFieldBytes);
  while (true) {
    std::string line = detail::event_line(event);
    line.pop_back();
    if (static_cast<std::int64_t>(line.size()) + 32 <= MonitorStore::kMaxEventBytes || event.fields.empty()) {
      return with_sequence(sequence, line);
    }
    for (LogField& field : event.fields) {
      field.key = cut(std::move(field.key), kMaxFieldBytes);
      field.value = cut(std::move(field.value), kMaxFieldBytes);
    }
    event.fields.resize(std::min(event.fields.size() - 1, kMaxFields), LogField("", ""));
  }
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '\n' ? std::string("\\n") : c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  }
  return escaped;
}

std::string prometheus_number(double value) {
  return std::isnan(value) ? "NaN" : std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf") : fmt::format("{}", value);
}

const std::shared_ptr<const std::string>& null_document() {
  static const auto text = std::make_shared<const std::string>("null");
  return text;
}

}  // namespace

MonitorStore::MonitorStore(const MonitorConfig& limits)
    : history_ms_(std::int64_t{limits.history_s} * 1000),
      max_records_(static_cast<std::size_t>(std::max(limits.max_events, 1))),
      topology_{0, null_document()},
      processes_{0, null_document()},
      status_{0, null_document()} {}

void MonitorStore::set(Document& document, std::string json) {
  if (static_cast<std::int64_t>(json.size()) > kMaxDocumentBytes) {
    json = fmt::format("{{\"too_large_bytes\":{}}}", json.size());
  }
  document.json = std::make_shared<const std::string>(std::move(json));
  ++document.version;
  ++num_changes_;
  changed_.notify_all();
}

void MonitorStore::set_topology(const Json& topology) {
  std::map<std::string, GroupLoad> groups;
  const auto actors = topology.find("actors");
  const std::size_t num_actors = actors != topology.end() && actors->is_array() ? actors->size() : 0;
  for (std::size_t index = 0; index < num_actors; ++index) {
    const Json& actor = (*actors)[index];
    std::string group = actor.is_object() ? text_of(actor, "group") : std::string();
    if (!actor.is_object() || (groups.size() >= kMaxGroups && !groups.contains(group))) {
      continue;
    }
    GroupLoad& load = groups[std::move(group)];
    ++load.actors_by_state[text_of(actor, "state")];
    load.mailbox_depth += static_cast<std::int64_t>(number_of(actor, "mailbox_depth"));
    load.num_handled += static_cast<std::int64_t>(number_of(actor, "num_handled"));
    load.busy_s += number_of(actor, "busy_ms") / 1000;
  }
  std::string json = dump(topology);
  if (static_cast<std::int64_t>(json.size()) > kMaxDocumentBytes) {
    json = dump({{"actors", Json::array()},
                 {"edges", Json::array()},
                 {"num_actors", num_actors},
                 {"too_large_bytes", json.size()}});
  }
  const std::lock_guard lock(mutex_);
  groups_ = std::move(groups);
  set(topology_, std::move(json));
}

void MonitorStore::set_processes(const Json& processes) {
  std::string json = dump(processes);
  const std::lock_guard lock(mutex_);
  set(processes_, std::move(json));
}

void MonitorStore::set_status(const Json& status) {
  std::string json = dump(status);
  const std::lock_guard lock(mutex_);
  set(status_, std::move(json));
}

void MonitorStore::append(History& history, Record record) {
  const auto cost = [](const Record& r) { return static_cast<std::int64_t>(r.json->size()) + kRecordOverheadBytes; };
  const std::int64_t oldest_ms = record.time_ms - history_ms_;
  history.size_bytes += cost(record);
  history.records.push_back(std::move(record));
  ++history.next_sequence;
  while (history.records.size() > 1 &&
         (history.records.size() > max_records_ || history.size_bytes > kMaxHistoryBytes ||
          history.records.front().time_ms < oldest_ms)) {
    history.size_bytes -= cost(history.records.front());
    history.records.pop_front();
  }
  ++num_changes_;
  changed_.notify_all();
}

void MonitorStore::add_event(const LogEvent& event) {
  const std::lock_guard lock(mutex_);
  ++events_by_level_[std::string(memopd::to_string(event.level))];
  append(events_,
         {event.unix_time_ms, 0, std::make_shared<const std::string>(event_text(events_.next_sequence, event))});
}

void MonitorStore::add_metrics(std::int64_t step, const std::map<std::string, double>& metrics, double time_s) {
  Json json = {{"step", step}, {"time", time_s}};
  for (const auto& [name, value] : metrics) {
    json[name] = value;
  }
  std::string line = dump(json);
  if (static_cast<std::int64_t>(line.size()) > kMaxMetricsBytes) {
    line = dump({{"step", step}, {"time", time_s}, {"too_large_bytes", line.size()}});
  }
  const std::lock_guard lock(mutex_);
  newest_step_ = step;
  if (metrics.size() <= kMaxMetricsBytes / 16) {
    newest_metrics_ = metrics;
  }
  append(metrics_, {static_cast<std::int64_t>(time_s * 1000), step,
                    std::make_shared<const std::string>(with_sequence(metrics_.next_sequence, line))});
}

MonitorStore::Document MonitorStore::topology() const {
  const std::lock_guard lock(mutex_);
  return topology_;
}
MonitorStore::Document MonitorStore::processes() const {
  const std::lock_guard lock(mutex_);
  return processes_;
}
MonitorStore::Document MonitorStore::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

MonitorStore::Page MonitorStore::page_after(const History& history, std::int64_t sequence, std::size_t max_records) {
  const std::int64_t first = history.first_sequence();
  const std::int64_t wanted = std::clamp<std::int64_t>(sequence, 0, history.next_sequence - 1) + 1;
  const std::int64_t begin = std::max(wanted, first);
  Page page;
  page.num_missed = begin - wanted;
  page.next = begin - 1;
  for (auto index = static_cast<std::size_t>(begin - first);
       index < history.records.size() && page.records.size() < max_records; ++index) {
    page.records.push_back(history.records[index].json);
    ++page.next;
  }
  return page;
}

MonitorStore::Page MonitorStore::events_after(std::int64_t sequence, std::size_t max_records) const {
  const std::lock_guard lock(mutex_);
  return page_after(events_, sequence, max_records);
}

MonitorStore::Page MonitorStore::metrics_after(std::int64_t sequence, std::size_t max_records) const {
  const std::lock_guard lock(mutex_);
  return page_after(metrics_, sequence, max_records);
}

MonitorStore::Page MonitorStore::metrics_from(std::int64_t step, std::size_t max_records) const {
  const std::lock_guard lock(mutex_);
  Page page;
  page.next = metrics_.next_sequence - 1;
  for (auto record = metrics_.records.rbegin(); record != metrics_.records.rend(); ++record) {
    if (record->step < step) {
      continue;
    }
    if (page.records.size() == max_records) {
      ++page.num_missed;
    } else {
      page.records.push_back(record->json);
    }
  }
  std::reverse(page.records.begin(), page.records.end());
  return page;
}

std::string MonitorStore::prometheus() const {
  const std::lock_guard lock(mutex_);
  std::string text = fmt::format("# TYPE memopd_step gauge\nmemopd_step {}\n", newest_step_);
  text += "# TYPE memopd_metric gauge\n";
  for (const auto& [name, value] : newest_metrics_) {
    text += fmt::format("memopd_metric{{name=\"{}\"}} {}\n", label(name), prometheus_number(value));
  }
  text += "# TYPE memopd_actors gauge\n";
  for (const auto& [group, load] : groups_) {
    for (const auto& [state, count] : load.actors_by_state) {
      text += fmt::format("memopd_actors{{group=\"{}\",state=\"{}\"}} {}\n", label(group), label(state), count);
    }
  }
  const auto by_group = [&](const char* name, const char* type, auto value_of) {
    text += fmt::format("# TYPE {} {}\n", name, type);
    for (const auto& [group, load] : groups_) {
      text += fmt::format("{}{{group=\"{}\"}} {}\n", name, label(group), value_of(load));
    }
  };
  by_group("memopd_mailbox_depth", "gauge", [](const GroupLoad& load) { return load.mailbox_depth; });
  by_group("memopd_handled_total", "counter", [](const GroupLoad& load) { return load.num_handled; });
  by_group("memopd_busy_seconds_total", "counter", [](const GroupLoad& load) { return load.busy_s; });
  text += "# TYPE memopd_events_total counter\n";
  for (const auto& [level, count] : events_by_level_) {
    text += fmt::format("memopd_events_total{{level=\"{}\"}} {}\n", level, count);
  }
  return text;
}

std::uint64_t MonitorStore::wait_for_change(std::uint64_t seen, std::chrono::milliseconds limit) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return num_changes_ != seen; });
  return num_changes_;
}

std::int64_t MonitorStore::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return events_.size_bytes + metrics_.size_bytes +
         static_cast<std::int64_t>(topology_.json->size() + processes_.json->size() + status_.json->size());
}

}  // namespace memopd
