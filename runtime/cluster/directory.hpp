// Directory: which actors there are, which process each lives in, and how that process is reached. Versioned.
//
// One author (the head), any number of readers that follow by DirectoryUpdate. Not thread-safe. No I/O, no clock.
// D1  an entry of a process never goes back to an earlier incarnation (CL-2).
// D2  readers that applied the same updates hold the same directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/messages.hpp"

namespace memopd {

class Directory {
 public:
  /// Author: sets an entry; what is as it was changes nothing. @return whether it changed
  bool set(const ProcessEntry& process);
  /// Author: adds the members of a group, all at once.
  /// @error already_exists  the group is there
  Expected<void> add(std::vector<ActorEntry> members);
  /// Author: forgets a group that could not be placed.
  void remove(std::string_view group);

  /// Author: everything that changed after `version`, in frames of at most `max_entries`.
  [[nodiscard]] std::vector<DirectoryUpdate> since(std::uint64_t version, std::size_t max_entries = 2000) const;
  /// Reader: takes an update over. Entries of an earlier incarnation than known are left out.
  void apply(const DirectoryUpdate& update);

  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] const ProcessEntry* process(std::string_view name) const;
  [[nodiscard]] const ActorEntry* actor(std::string_view name) const;
  /// In rank order; empty: no such group.
  [[nodiscard]] std::vector<ActorEntry> group(std::string_view name) const;
  [[nodiscard]] std::vector<ProcessEntry> processes() const;
  [[nodiscard]] std::vector<ActorEntry> actors_of(std::string_view process) const;
  [[nodiscard]] std::vector<std::string> group_names() const;  ///< in the order they were added

 private:
  template <class Entry>
  struct Versioned {
    Entry entry;
    std::uint64_t version = 0;
  };

  std::uint64_t version_ = 0;
  std::map<std::string, Versioned<ProcessEntry>, std::less<>> processes_;
  std::map<std::string, Versioned<ActorEntry>, std::less<>> actors_;
  std::map<std::string, std::vector<std::string>, std::less<>> groups_;  ///< names of the members by rank
  std::vector<std::string> group_order_;
};

}  // namespace memopd
