// Later and Promise outside an actor, where continuations run at once.
#include "runtime/actor/later.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

namespace memopd {
namespace {

TEST_CASE("then continues with Expected, Later, a plain value or nothing", "[actor]") {
  Promise<int> promise;
  std::string log;
  const Later<int> doubled = promise.later()
                                 .then([](Expected<int> value) -> Expected<int> { return *value + 1; })
                                 .then([](const Expected<int>& value) { return Later<int>::ready(*value * 2); })
                                 .then([](Expected<int>&& value) { return *value; });
  Later<void> end = Later<int>(doubled).then([&](const Expected<int>& value) { log = std::to_string(*value); });

  promise.deliver(20);

  CHECK(log == "42");
  bool is_done = false;
  end.then([&](const Expected<void>& result) { is_done = result.has_value(); });
  CHECK(is_done);
}

TEST_CASE("an error travels through the chain to whoever looks at it", "[actor][error]") {
  Promise<int> promise;
  std::string message;
  promise.later()
      .then([](const Expected<int>& value) -> Expected<std::string> {
        MEMOPD_RETURN_IF_ERROR(value);
        return std::to_string(*value);
      })
      .then([&](const Expected<std::string>& text) { message = text.error().message; });

  promise.deliver(unexpected(ErrorCode::timeout, "too late"));

  CHECK(message == "too late");
}

TEST_CASE("a promise that is dropped or overwritten delivers refused", "[actor][error]") {
  std::vector<std::string> messages;
  const auto listen = [&](Promise<int>& promise) {
    promise.later().then([&](const Expected<int>& value) { messages.push_back(value.error().message); });
  };
  {
    Promise<int> dropped;
    listen(dropped);
  }
  Promise<int> overwritten;
  listen(overwritten);
  overwritten = Promise<int>();

  CHECK(messages == std::vector<std::string>{"promise dropped", "promise dropped"});
}

TEST_CASE("only the first deliver counts, and the value may be movable only", "[actor]") {
  Promise<std::unique_ptr<int>> promise;
  int seen = 0;
  promise.later().then([&](Expected<std::unique_ptr<int>> value) { seen = **value; });

  promise.deliver(std::make_unique<int>(1));
  promise.deliver(std::make_unique<int>(2));

  CHECK(seen == 1);
  CHECK_FALSE(promise);
}

TEST_CASE("a continuation that throws outside an actor becomes internal in the chain", "[actor][error]") {
  ErrorCode code = ErrorCode::timeout;
  Later<int>::ready(1)
      .then([](const Expected<int>&) -> Expected<int> { throw std::runtime_error("broken"); })
      .then([&](const Expected<int>& value) { code = value.error().code; });

  CHECK(code == ErrorCode::internal);
}

}  // namespace
}  // namespace memopd
