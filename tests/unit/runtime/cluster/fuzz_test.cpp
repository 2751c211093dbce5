// Damaged frames of the process layer, from a peer that is known.
#include <catch2/catch.hpp>

#include "runtime/cluster/messages.hpp"
#include "runtime/transport/link_frame.hpp"
#include "runtime/wire/frame.hpp"
#include "tests/support/fuzz.hpp"

namespace memopd::testing {
namespace {

template <Message M>
void probe(const M& message, SplitMix& random) {
  const auto frame = *encode_frame(message);
  const std::string bytes = damage({reinterpret_cast<const char*>(frame.data()), frame.size()}, random);
  (void)decode_frame<M>({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

TEST_CASE("damaged messages between processes, for a minute", "[.fuzz]") {
  DirectoryUpdate update{7, {{"student/0", "local", ProcessState::running, 2, {}, {"ipc://x", "tcp://y"}, "why"}}, {}};
  update.actors.push_back({"student/0", "student", "student", 0, 1, true, 10, "student/0"});
  ProcessReport report;
  report.actors.resize(2);
  report.edges.push_back({"a", "b", 1, 2});
  ProcessStart start;
  start.head_endpoints = {"ipc://x"};
  start.worker_command = {"a", "b"};
  const LinkHeader header{LinkFrameKind::data, {}, 3, 9};
  const auto link = encode_link_frame(header, std::vector<std::byte>(100));
  const auto count = fuzz("messages of processes", [&](SplitMix& random) {
    probe(update, random);
    probe(report, random);
    probe(start, random);
    probe(ActorCall{"a/0", "b/0", 1, 2, "Add", 1, std::vector<std::byte>(50)}, random);
    probe(ActorAnswer{2, Error{ErrorCode::timeout, "late"}, "Total", 1, {}}, random);
    probe(EventReport{{{1, 2, "a", "b", {"k"}, {"v"}}}}, random);
    const std::string bytes = damage({reinterpret_cast<const char*>(link.data()), link.size()}, random);
    (void)parse_link_frame({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  });
  CHECK(count > 1000);
}

}  // namespace
}  // namespace memopd::testing
