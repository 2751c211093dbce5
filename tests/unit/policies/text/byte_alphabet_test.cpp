#include "policies/text/byte_alphabet.hpp"

#include <catch2/catch.hpp>
#include <set>

namespace memopd {
namespace {

TEST_CASE("printable bytes stand for themselves, space is G with a dot, newline C with one", "[tokenizer]") {
  CHECK(to_byte_alphabet("a b\n") == "aĠbĊ");
  CHECK(to_byte_alphabet("\xC3\xA9") == "Ã©");
  CHECK(to_byte_alphabet(std::string_view("\0", 1)) == "Ā");
}

TEST_CASE("all 256 bytes survive the alphabet", "[tokenizer]") {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.push_back(static_cast<char>(byte));
  }
  CHECK(from_byte_alphabet(to_byte_alphabet(bytes)) == bytes);
}

TEST_CASE("text outside the alphabet spells no bytes", "[tokenizer][error]") {
  CHECK_FALSE(from_byte_alphabet("a b"));
  CHECK_FALSE(from_byte_alphabet("東"));
  CHECK_FALSE(from_byte_alphabet("\u0144"));  // one past the last letter
  CHECK_FALSE(from_byte_alphabet("\u00ad"));  // soft hyphen is not printable
}

TEST_CASE("alphabet order begins with '!' and holds every byte once", "[tokenizer]") {
  const auto& order = bytes_in_alphabet_order();
  CHECK(order[0] == '!');
  CHECK(order[255] == 0xAD);
  CHECK(std::set<int>(order.begin(), order.end()).size() == 256);
}

}  // namespace
}  // namespace memopd
