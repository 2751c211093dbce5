#include "actors/call_executor.hpp"

#include <catch2/catch.hpp>
#include <future>

using namespace memopd;

TEST_CASE("a call that hangs does not keep others from running", "[call_executor]") {
  auto executor = make_threaded_executor();
  std::promise<void> release;
  std::promise<void> ran;
  executor->run([gate = release.get_future().share()] { gate.wait(); });

  executor->run([&ran] { ran.set_value(); });

  CHECK(ran.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  release.set_value();
}

TEST_CASE("an executor that ends does not wait for a call that hangs", "[call_executor]") {
  auto release = std::make_shared<std::promise<void>>();
  auto executor = make_threaded_executor();
  executor->run([gate = release->get_future().share()] { gate.wait(); });

  executor.reset();

  SUCCEED("reached although the call still hangs");
  release->set_value();
}

TEST_CASE("the inline executor runs a call before it returns", "[call_executor]") {
  auto executor = make_inline_executor();
  int calls = 0;

  executor->run([&calls] { ++calls; });

  CHECK(calls == 1);
}
