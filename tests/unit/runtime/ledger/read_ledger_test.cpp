#include "runtime/ledger/read_ledger.hpp"

#include <catch2/catch.hpp>

#include "runtime/ledger/record_format.hpp"
#include "tests/unit/runtime/ledger/ledger_example.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

/// Three invocations in one segment; the sizes of the file before each and at the end.
std::vector<std::size_t> write_three(const LedgerFolder& folder) {
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  std::vector<std::size_t> sizes;
  for (std::int32_t i = 0; i < 3; ++i) {
    sizes.push_back(static_cast<std::size_t>((*writer)->size_bytes()));
    REQUIRE((*writer)->append(invocation(i, {1, 2, 3}, {4, i})));
  }
  sizes.push_back(static_cast<std::size_t>((*writer)->size_bytes()));
  return sizes;
}

}  // namespace

TEST_CASE("a ledger cut off anywhere reads up to its last whole record", "[ledger][LE-3]") {
  const LedgerFolder folder;
  const auto sizes = write_three(folder);
  const std::string whole = read_bytes(folder.segment(0));
  REQUIRE(whole.size() == sizes[3]);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    write_bytes(folder.segment(0), whole.substr(0, size));
    const auto contents = read_ledger(folder.path());
    INFO("cut at byte " << size);
    REQUIRE(contents);
    const std::size_t num_whole = size >= sizes[3] ? 3U : size >= sizes[2] ? 2U : size >= sizes[1] ? 1U : 0U;
    CHECK(contents->records.size() == num_whole);
    const std::size_t kept = size < sizes[0] ? 0 : sizes[num_whole];
    CHECK(contents->torn_bytes == static_cast<std::int64_t>(size - kept));
  }
}

TEST_CASE("zeros behind the last record, as a crash may leave them, are a torn end", "[ledger][LE-3]") {
  const LedgerFolder folder;
  const auto sizes = write_three(folder);
  const std::string whole = read_bytes(folder.segment(0));
  write_bytes(folder.segment(0), whole.substr(0, sizes[2]) + std::string(100, '\0'));
  const auto contents = read_ledger(folder.path());
  REQUIRE(contents);
  CHECK(contents->records.size() == 2);
  CHECK(contents->torn_bytes == 100);
}

TEST_CASE("a flipped bit before the last record is an error with file and byte, never silence",
          "[ledger][LE-3][error]") {
  const LedgerFolder folder;
  const auto sizes = write_three(folder);
  const std::string whole = read_bytes(folder.segment(0));
  for (std::size_t at = sizes[0]; at < sizes[2]; ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    write_bytes(folder.segment(0), bytes);
    const auto contents = read_ledger(folder.path());
    INFO("flipped byte " << at);
    REQUIRE_FALSE(contents);
    CHECK(contents.error().code == ErrorCode::parse_error);
    const std::size_t record = at < sizes[1] ? sizes[0] : sizes[1];
    CHECK(contents.error().message.find("segment-000000.ledger, byte " + std::to_string(record) + ": damaged record") !=
          std::string::npos);
  }
}

TEST_CASE("a torn segment that others follow is damage", "[ledger][LE-3][error]") {
  const LedgerFolder folder;
  {
    const auto writer = LedgerWriter::create(folder.path(), {.steps_per_segment = 1});
    REQUIRE(writer);
    REQUIRE((*writer)->append_step(0, 1, {}));
    REQUIRE((*writer)->append_step(1, 2, {}));
  }
  const std::string whole = read_bytes(folder.segment(0));
  write_bytes(folder.segment(0), whole.substr(0, whole.size() - 1));
  const auto cut = read_ledger(folder.path());
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code == ErrorCode::parse_error);

  write_bytes(folder.segment(0), whole);
  std::filesystem::remove(folder.segment(1));
  const auto gap = read_ledger(folder.path());
  REQUIRE_FALSE(gap);
  CHECK(gap.error().message == "ledger " + folder.path().string() + ": segment-000001.ledger is missing");
}

TEST_CASE("a folder without segments, a foreign file and a newer version are told apart", "[ledger][error]") {
  const LedgerFolder folder;
  const auto none = read_ledger(folder.path());
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::not_found);

  write_three(folder);
  std::string bytes = read_bytes(folder.segment(0));
  bytes[8] = 2;
  write_bytes(folder.segment(0), bytes);
  const auto newer = read_ledger(folder.path());
  REQUIRE_FALSE(newer);
  CHECK(newer.error().code == ErrorCode::unsupported);
  CHECK(newer.error().message == "ledger " + folder.segment(0).string() + ": found version 2, allowed 1");

  bytes[0] = 'X';
  write_bytes(folder.segment(0), bytes);
  const auto foreign = read_ledger(folder.path());
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().code == ErrorCode::parse_error);
}

TEST_CASE("an intact record whose body is no such record is an error", "[ledger][error]") {
  const LedgerFolder folder;
  write_three(folder);
  const std::string whole = read_bytes(folder.segment(0));
  const auto append = [&](RecordKind kind, detail::Encoding encoding, const std::vector<std::byte>& body) {
    const auto record = detail::frame_record(kind, encoding, body);
    write_bytes(folder.segment(0), whole + std::string(reinterpret_cast<const char*>(record.data()), record.size()));
    return read_ledger(folder.path());
  };
  const auto body = append(RecordKind::step, detail::Encoding::plain, {std::byte{0xc1}});
  REQUIRE_FALSE(body);
  CHECK(body.error().code == ErrorCode::parse_error);
  const auto kind = append(static_cast<RecordKind>(9), detail::Encoding::plain, {});
  REQUIRE_FALSE(kind);
  CHECK(kind.error().code == ErrorCode::unsupported);
  CHECK(kind.error().message.find("kind 9 of a record") != std::string::npos);
  const auto frame = append(RecordKind::step, detail::Encoding::zstd, {std::byte{1}, std::byte{2}});
  REQUIRE_FALSE(frame);
  CHECK(frame.error().code == ErrorCode::parse_error);
  CHECK(frame.error().message.find("compressed body") != std::string::npos);
  const auto encoding = append(RecordKind::step, static_cast<detail::Encoding>(7), {});
  REQUIRE_FALSE(encoding);
  CHECK(encoding.error().code == ErrorCode::unsupported);
}

TEST_CASE("records come one by one, and a visitor's error ends the reading", "[ledger]") {
  const LedgerFolder folder;
  const auto sizes = write_three(folder);
  std::int32_t count = 0;
  const auto stopped = for_each_record(folder.path(), [&count](const LedgerRecord&) -> Expected<void> {
    return ++count < 2 ? Expected<void>() : unexpected(ErrorCode::refused, "enough");
  });
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().message == "enough");
  CHECK(count == 2);

  const auto extent = for_each_record(folder.path(), [](const LedgerRecord&) { return Expected<void>(); });
  REQUIRE(extent);
  CHECK(extent->first_segment == 0);
  CHECK(extent->num_segments == 1);
  CHECK(extent->size_bytes == static_cast<std::int64_t>(sizes[3]));
  CHECK(extent->body_bytes > 0);
}
