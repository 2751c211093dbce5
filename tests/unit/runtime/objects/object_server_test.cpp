#include "runtime/objects/object_server.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "runtime/objects/detail/sealed_memory.hpp"
#include "runtime/objects/detail/store_packet.hpp"
#include "runtime/objects/detail/store_socket.hpp"
#include "runtime/wire/frame.hpp"
#include "tests/unit/runtime/objects/test_objects.hpp"
#include "tests/unit/runtime/objects/test_values.hpp"
#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

using detail::Descriptor;
using testing::ChildProcess;
using testing::ObjectNode;
using testing::wait_until;

/// A client that sends what it wants.
class RawClient {
 public:
  explicit RawClient(const ObjectNode& node) {
    auto socket = detail::connect_to(node.socket());
    REQUIRE(socket);
    socket_ = *std::move(socket);
  }
  /// False when the server has cut the connection or does not read.
  bool send(std::span<const std::byte> bytes, int descriptor = -1) {
    return detail::send_packet(socket_.get(), bytes, descriptor).has_value();
  }
  /// Sends several descriptors with one byte.
  void send_descriptors(const std::vector<int>& descriptors) {
    std::byte byte{};
    iovec part{&byte, 1};
    std::vector<char> control(CMSG_SPACE(sizeof(int) * descriptors.size()));
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(item), descriptors.data(), sizeof(int) * descriptors.size());
    REQUIRE(::sendmsg(socket_.get(), &header, MSG_NOSIGNAL) == 1);
  }
  StoreReply ask(const StoreRequest& request, int descriptor = -1) {
    REQUIRE(send(*encode_frame(request), descriptor));
    const auto packet = receive();
    REQUIRE(packet);
    const auto reply = decode_frame<StoreReply>(packet->bytes);
    REQUIRE(reply);
    return *reply;
  }
  /// Whether the server ends the connection; what it says before is dropped.
  bool is_cut() {
    for (auto packet = receive(); packet; packet = receive()) {
    }
    return true;
  }

 private:
  std::optional<detail::Packet> receive() {
    std::optional<detail::Packet> received;
    bool has_ended = false;
    wait_until(
        [&] {
          auto packet = detail::receive_packet(socket_.get());
          has_ended = !packet;
          if (packet && packet->has_value()) {
            received = **std::move(packet);
          }
          return has_ended || received.has_value();
        },
        "the object server");
    return received;
  }

  Descriptor socket_;
};

StoreRequest put_request(std::uint64_t number, std::uint64_t size_bytes) {
  StoreRequest request;
  request.verb = StoreVerb::put;
  request.ref = {9, number};
  request.size_bytes = size_bytes;
  request.type = "blob";
  return request;
}

StoreRequest get_request(const ObjectRef& ref) {
  StoreRequest request;
  request.verb = StoreVerb::get;
  request.ref = ref;
  return request;
}

/// A memfd of `size` bytes with these seals.
Descriptor memory_with(std::size_t size, int seals) {
  auto memory = detail::create_memory(size);
  REQUIRE(memory);
  REQUIRE(::fcntl(memory->get(), F_ADD_SEALS, seals) == 0);
  return *std::move(memory);
}

TEST_CASE("a memfd that is not sealed entirely is refused, named and closed", "[objects][R14][error]") {
  ObjectNode node;
  RawClient client(node);
  static_cast<void>(client.ask(get_request({9, 1})));
  const std::size_t before = testing::num_descriptors();
  const int all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  std::uint64_t number = 0;
  for (const int missing : {all, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE}) {
    const Descriptor memory = memory_with(10, all & ~missing);

    const StoreReply reply = client.ask(put_request(++number, 10), memory.get());

    REQUIRE(reply.error);
    CHECK(reply.error->code == ErrorCode::refused);
    CHECK_THAT(reply.error->message, Catch::Contains("a memfd with seals"));
  }
  CHECK(testing::num_descriptors() == before);
  CHECK(node.server().counters().num_refused_puts == 5);
  CHECK(node.server().counters().objects.num_objects == 0);
}

TEST_CASE("a descriptor of another kind or size than claimed is refused", "[objects][R14][error]") {
  ObjectNode node;
  RawClient client(node);
  const int all = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  const Descriptor memory = memory_with(10, all);
  const Descriptor file(::open("/dev/null", O_RDWR | O_CLOEXEC));

  const auto small = client.ask(put_request(1, 9), memory.get());
  const auto large = client.ask(put_request(2, std::uint64_t{1} << 62), memory.get());
  const auto null = client.ask(put_request(3, 0), file.get());
  const auto none = client.ask(put_request(4, 0));

  CHECK_THAT(small.error.value_or(Error{}).message, Catch::Contains("a memfd of 10 bytes, claimed 9"));
  CHECK_THAT(large.error.value_or(Error{}).message,
             Catch::Contains("a memfd of 10 bytes, claimed 4611686018427387904"));
  CHECK_THAT(null.error.value_or(Error{}).message, Catch::Contains("a descriptor that is no memfd"));
  CHECK_THAT(none.error.value_or(Error{}).message, Catch::Contains("came without a descriptor"));
  CHECK_FALSE(client.ask(put_request(5, 10), memory.get()).error);
  CHECK(node.server().counters().objects.size_bytes == 10);
}

TEST_CASE("a number of a store is put once", "[objects][error]") {
  const ObjectNode node;
  RawClient client(node);
  const auto memory = detail::make_sealed(testing::pattern(10, 1));
  REQUIRE(memory);
  REQUIRE_FALSE(client.ask(put_request(2, 10), memory->get()).error);

  const auto again = client.ask(put_request(2, 10), memory->get());
  const auto earlier = client.ask(put_request(1, 10), memory->get());

  CHECK(again.error.value_or(Error{}).code == ErrorCode::already_exists);
  CHECK(earlier.error.value_or(Error{}).code == ErrorCode::already_exists);
  CHECK_FALSE(client.ask(get_request({9, 2})).error);
}

TEST_CASE("garbage ends its connection and nothing else", "[objects][error]") {
  ObjectNode node;
  const auto store = node.connect(1);
  const ObjectRef ref = store->put_blob(testing::pattern(10, 1), {});
  const std::size_t before = testing::num_descriptors();
  {
    RawClient noise(node);
    RawClient oversized(node);
    RawClient other_message(node);
    RawClient several(node);
    RawClient unasked(node);
    REQUIRE(noise.send(testing::pattern(100, 7)));
    REQUIRE(oversized.send(testing::pattern(detail::kMaxPacketBytes + 1, 7)));
    REQUIRE(other_message.send(*encode_frame(StoreReply{})));
    several.send_descriptors({0, 1, 2, 0, 1, 2, 0, 1});
    REQUIRE(unasked.send(*encode_frame(get_request(ref)), 0));

    CHECK(noise.is_cut());
    CHECK(oversized.is_cut());
    CHECK(other_message.is_cut());
    CHECK(several.is_cut());
    CHECK(unasked.is_cut());
  }
  CHECK(node.server().counters().num_malformed == 5);
  CHECK(testing::num_descriptors() == before);
  CHECK(store->get_blob(ref));
}

TEST_CASE("a second request beside a waiting one ends the connection", "[objects][error]") {
  ObjectNode node;
  RawClient client(node);
  StoreRequest wait = get_request({9, 1});
  wait.verb = StoreVerb::wait;
  wait.timeout_ms = 3'600'000;
  REQUIRE(client.send(*encode_frame(wait)));
  REQUIRE(client.send(*encode_frame(wait)));

  CHECK(client.is_cut());
  CHECK(node.server().counters().num_malformed == 1);
}

TEST_CASE("a flood that nobody reads the answers of is cut off while others are served", "[objects][error]") {
  ObjectNode node;
  const auto store = node.connect(1);
  const ObjectRef ref = store->put_blob(testing::pattern(10, 1), {});
  const std::size_t before = testing::num_descriptors();
  {
    RawClient flood(node);
    const auto request = *encode_frame(get_request(ref));
    wait_until(
        [&] {
          static_cast<void>(flood.send(request));
          return node.server().counters().num_malformed == 1;
        },
        "the end of the flood");
    CHECK(store->get_blob(ref));
  }
  wait_until([&] { return testing::num_descriptors() == before; }, "descriptors on their way to be closed");
}

TEST_CASE("connections beyond the limit are turned away and counted", "[objects][error]") {
  ObjectNode node(0, nullptr, 2);
  RawClient first(node);
  RawClient second(node);
  static_cast<void>(first.ask(get_request({1, 1})));
  static_cast<void>(second.ask(get_request({1, 1})));

  RawClient third(node);

  CHECK(third.is_cut());
  CHECK(node.server().counters().num_refused_connections == 1);
  const auto store = node.connect(1);
  CHECK(store->get_blob({1, 1}).error().code == ErrorCode::overloaded);
  CHECK_THAT(store->get_blob({1, 1}).error().message, Catch::Contains("max_connections is 2"));
  CHECK(first.ask(get_request({1, 1})).error);
}

TEST_CASE("a process of another user is refused, even where the folder lets it in", "[objects][R14][error]") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can start a process of another user");
    return;
  }
  ObjectNode node;
  REQUIRE(::chmod(node.folder().c_str(), 0755) == 0);
  REQUIRE(::chmod(node.socket().c_str(), 0777) == 0);

  ChildProcess child({node.socket(), "1", "65534"});

  CHECK_THAT(child.read_line(), Catch::Contains("of user 0, allowed is user 65534"));
  RawClient later(node);
  static_cast<void>(later.ask(get_request({1, 1})));
  wait_until([&] { return node.server().counters().num_refused_connections == 1; }, "the refusal");
}

TEST_CASE("a folder that lets others in, a long path and a second server are refused", "[objects][error]") {
  const ObjectNode node;
  const auto open = node.folder() / "open";
  REQUIRE(::mkdir(open.c_str(), 0700) == 0);
  REQUIRE(::chmod(open.c_str(), 0755) == 0);

  CHECK(ObjectServer::start({open / "objects"}).error().code == ErrorCode::refused);
  CHECK(ObjectServer::start({node.folder() / std::string(120, 'x')}).error().code == ErrorCode::invalid_argument);
  CHECK(ObjectServer::start({node.socket()}).error().code == ErrorCode::already_exists);
  CHECK(ObjectServer::start({node.folder() / "a", 0, 0}).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("a store finds the server that took the place of its own", "[objects]") {
  ObjectNode node;
  const auto store = node.connect(1);
  const ObjectRef before = store->put_blob({}, {});
  node.end_server();
  const auto next = ObjectServer::start({node.socket()});
  REQUIRE(next);

  CHECK(store->get_blob(before).error().message == "object " + to_string(before) + " was never put on this node");
  CHECK(store->get_blob(store->put_blob({}, {})));
}

TEST_CASE("a server takes the socket that a killed one left", "[objects]") {
  const ObjectNode node;
  const auto left = node.folder() / "left";
  { const auto dead = detail::listen_at(left); }
  REQUIRE(std::filesystem::exists(left));

  CHECK(ObjectServer::start({left}));
}

TEST_CASE("clients that come, put and are killed leave no descriptor but their objects", "[objects][R14]") {
  ObjectNode node;
  const auto store = node.connect(1);
  static_cast<void>(store->counters());
  const auto shared_memory = [] {
    const auto folder = std::filesystem::directory_iterator("/dev/shm");
    return std::distance(std::filesystem::begin(folder), std::filesystem::end(folder));
  };
  const auto in_shared_memory = shared_memory();
  const std::size_t before = testing::num_descriptors();
  for (int i = 0; i < 3; ++i) {
    ChildProcess child({node.socket(), std::to_string(i + 2)});
    REQUIRE(child.read_line() == "ready");
    static_cast<void>(child.ask_ref("put_blob 5000 1"));
    static_cast<void>(child.ask_ref("put_weights 1"));
    child.kill();
  }
  wait_until([&] { return node.server().counters().num_connections == 1; }, "the end of the children");
  CHECK(testing::num_descriptors() == before + 6);

  CHECK(store->release_scope({ScopeKind::manual, 0}) == 3);
  CHECK(store->release_scope({ScopeKind::version, 1}) == 3);

  CHECK(testing::num_descriptors() == before);
  CHECK(shared_memory() == in_shared_memory);
}

TEST_CASE("without a descriptor left a put is refused by name and the server goes on", "[objects][error]") {
  ObjectNode node;
  const auto store = node.connect(1);
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(limit.rlim_cur == limit.rlim_max);  // raised by the server
  RawClient client(node);
  const auto memory = detail::make_sealed(testing::pattern(10, 1));
  REQUIRE(memory);
  static_cast<void>(client.ask(get_request({9, 1})));  // it is connected
  const rlimit few{256, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<Descriptor> fillers;
  do {
    fillers.emplace_back(::dup(memory->get()));
  } while (fillers.back().is_open());

  const auto reply = client.ask(put_request(1, 10), memory->get());
  fillers.resize(fillers.size() - 2);  // the failed one, and one that makes room for a client and none for the server
  RawClient late(node);

  CHECK(late.is_cut());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(node.server().counters().num_refused_connections == 1);
  REQUIRE(reply.error);
  CHECK(reply.error->code == ErrorCode::overloaded);
  CHECK_THAT(reply.error->message, Catch::Contains("RLIMIT_NOFILE"));
  CHECK(client.ask(get_request({9, 1})).error.value_or(Error{}).message == reply.error->message);
  CHECK_FALSE(client.ask(put_request(2, 10), memory->get()).error);
}

}  // namespace
}  // namespace memopd
