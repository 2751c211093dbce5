#include "runtime/cluster/directory.hpp"

#include <algorithm>
#include <utility>

namespace memopd {
namespace {

bool is_same(const ProcessEntry& a, const ProcessEntry& b) {
  return a.name == b.name && a.node == b.node && a.state == b.state && a.incarnation == b.incarnation &&
         a.instance == b.instance && a.endpoints == b.endpoints && a.reason == b.reason;
}

}  // namespace

std::string_view to_string(ProcessState state) {
  switch (state) {
    case ProcessState::waiting:
      return "waiting";
    case ProcessState::starting:
      return "starting";
    case ProcessState::running:
      return "running";
    case ProcessState::suspect:
      return "suspect";
    case ProcessState::stopping:
      return "stopping";
    case ProcessState::ended:
      return "ended";
    case ProcessState::failed:
      return "failed";
  }
  return "unknown";
}

bool Directory::set(const ProcessEntry& process) {
  const auto found = processes_.find(process.name);
  if (found != processes_.end() && is_same(found->second.entry, process)) {
    return false;
  }
  processes_[process.name] = {process, ++version_};
  return true;
}

Expected<void> Directory::add(std::vector<ActorEntry> members) {
  const std::string group = members.front().group;
  if (groups_.contains(group)) {
    return unexpected(ErrorCode::already_exists, "a group is named \"" + group + "\" already");
  }
  ++version_;
  std::vector<std::string> names;
  for (ActorEntry& member : members) {
    names.push_back(member.name);
    actors_.insert_or_assign(names.back(), Versioned<ActorEntry>{std::move(member), version_});
  }
  groups_.emplace(group, std::move(names));
  group_order_.push_back(group);
  return {};
}

void Directory::remove(std::string_view group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    return;
  }
  for (const std::string& name : found->second) {
    actors_.erase(name);
  }
  groups_.erase(found);
  std::erase(group_order_, group);
}

std::vector<DirectoryUpdate> Directory::since(std::uint64_t version, std::size_t max_entries) const {
  std::vector<DirectoryUpdate> updates;
  const auto place = [&]() -> DirectoryUpdate& {
    if (updates.empty() || updates.back().processes.size() + updates.back().actors.size() >= max_entries) {
      updates.emplace_back();
    }
    return updates.back();
  };
  for (const auto& [name, process] : processes_) {
    if (process.version > version) {
      place().processes.push_back(process.entry);
    }
  }
  // By group and rank, so that a reader sees the groups in the order they were added.
  for (const std::string& group : group_order_) {
    for (const std::string& name : groups_.find(group)->second) {
      const auto& actor = actors_.find(name)->second;
      if (actor.version > version) {
        place().actors.push_back(actor.entry);
      }
    }
  }
  for (DirectoryUpdate& update : updates) {
    update.version = version_;
  }
  return updates;
}

void Directory::apply(const DirectoryUpdate& update) {
  version_ = std::max(version_, update.version);
  for (const ProcessEntry& process : update.processes) {
    const auto found = processes_.find(process.name);
    if (found == processes_.end() || found->second.entry.incarnation <= process.incarnation) {
      processes_[process.name] = {process, version_};
    }
  }
  for (const ActorEntry& actor : update.actors) {
    auto [group, is_new] = groups_.try_emplace(actor.group);
    if (is_new) {
      group_order_.push_back(actor.group);
    }
    if (std::find(group->second.begin(), group->second.end(), actor.name) == group->second.end()) {
      group->second.push_back(actor.name);
    }
    actors_[actor.name] = {actor, version_};
  }
}

const ProcessEntry* Directory::process(std::string_view name) const {
  const auto found = processes_.find(name);
  return found == processes_.end() ? nullptr : &found->second.entry;
}

const ActorEntry* Directory::actor(std::string_view name) const {
  const auto found = actors_.find(name);
  return found == actors_.end() ? nullptr : &found->second.entry;
}

std::vector<ActorEntry> Directory::group(std::string_view name) const {
  std::vector<ActorEntry> members;
  if (const auto found = groups_.find(name); found != groups_.end()) {
    for (const std::string& member : found->second) {
      members.push_back(actors_.find(member)->second.entry);
    }
  }
  std::sort(members.begin(), members.end(), [](const ActorEntry& a, const ActorEntry& b) { return a.rank < b.rank; });
  return members;
}

std::vector<ProcessEntry> Directory::processes() const {
  std::vector<ProcessEntry> all;
  for (const auto& [name, process] : processes_) {
    all.push_back(process.entry);
  }
  return all;
}

std::vector<ActorEntry> Directory::actors_of(std::string_view process) const {
  std::vector<ActorEntry> actors;
  for (const std::string& group : group_order_) {
    for (const std::string& name : groups_.find(group)->second) {
      if (const ActorEntry& actor = actors_.find(name)->second.entry; actor.process == process) {
        actors.push_back(actor);
      }
    }
  }
  return actors;
}

std::vector<std::string> Directory::group_names() const { return group_order_; }

}  // namespace memopd
