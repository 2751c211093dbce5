#include "policies/model/safetensors.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/unit/policies/model/file_bytes.hpp"

using namespace memopd;
using memopd::testing::file_with_header;
using memopd::testing::TemporaryFolder;

namespace {

HostTensor floats(std::string name, std::vector<std::int64_t> shape, std::vector<float> values) {
  HostTensor tensor{.name = std::move(name), .dtype = DType::float32, .shape = std::move(shape), .bytes = {}};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

ErrorCode code_of_header(const TemporaryFolder& folder, const std::string& header, std::size_t data_bytes) {
  const auto path = folder.path() / "hostile.safetensors";
  file_with_header(path, header, data_bytes);
  const auto read = read_safetensors_header(path);
  REQUIRE_FALSE(read);
  return read.error().code;
}

}  // namespace

TEST_CASE("safetensors gives back names, shapes, types and bytes, sorted by name", "[safetensors]") {
  const TemporaryFolder folder("safetensors");
  const auto path = folder.path() / "a.safetensors";
  const std::vector<HostTensor> tensors = {floats("b", {2, 1}, {1.5f, -2.0f}),
                                           floats("a", {}, {3.0f}),
                                           {.name = "empty", .dtype = DType::int64, .shape = {0, 4}, .bytes = {}}};

  REQUIRE(write_safetensors(path, tensors, {{"step", "7"}}));
  const auto read = read_safetensors(path);
  const auto header = read_safetensors_header(path);

  REQUIRE(read);
  REQUIRE(read->size() == 3);
  CHECK((*read)[0].name == "a");
  CHECK((*read)[1].shape == std::vector<std::int64_t>{2, 1});
  CHECK((*read)[1].bytes == tensors[0].bytes);
  CHECK((*read)[2].dtype == DType::int64);
  CHECK(header->metadata.at("step") == "7");
}

TEST_CASE("safetensors refuses headers that are not what they claim to be", "[safetensors][error]") {
  const TemporaryFolder folder("hostile");
  const std::string fine = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto path = folder.path() / "fine.safetensors";
  file_with_header(path, fine, 8);
  REQUIRE(read_safetensors_header(path));  // the cases below each break one thing of this one

  CHECK(code_of_header(folder, fine, 12) == ErrorCode::parse_error);  // bytes that belong to nothing
  CHECK(code_of_header(folder, fine, 4) == ErrorCode::parse_error);   // cut short
  CHECK(code_of_header(folder, R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8) ==
        ErrorCode::parse_error);
  CHECK(code_of_header(folder, R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8) ==
        ErrorCode::parse_error);
  CHECK(code_of_header(folder, R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8) ==
        ErrorCode::parse_error);
  // 2^62 elements of 4 bytes wrap around to 0.
  CHECK(code_of_header(folder, R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0) ==
        ErrorCode::parse_error);
  CHECK(code_of_header(folder, R"({"a":{"dtype":"F8","shape":[2],"data_offsets":[0,8]}})", 8) ==
        ErrorCode::unsupported);
  CHECK(code_of_header(folder, R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
                                   "b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                       8) == ErrorCode::parse_error);
  // The second one would pass if it simply replaced the first.
  CHECK(code_of_header(folder, R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                                   "a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                       4) == ErrorCode::parse_error);
  CHECK(code_of_header(folder, "[1, 2]", 0) == ErrorCode::parse_error);
  CHECK(code_of_header(folder, std::string(5000, '['), 0) == ErrorCode::parse_error);
}

TEST_CASE("safetensors does not believe a length that exceeds the file", "[safetensors][error]") {
  const TemporaryFolder folder("length");
  const auto path = folder.path() / "long.safetensors";
  testing::write_file(path, std::string(8, '\xff') + "{}");
  CHECK(read_safetensors_header(path).error().code == ErrorCode::parse_error);
  testing::write_file(path, "abc");
  CHECK(read_safetensors_header(path).error().code == ErrorCode::parse_error);
  CHECK(read_safetensors_header(folder.path() / "absent").error().code == ErrorCode::not_found);
}

TEST_CASE("safetensors writes nothing when a tensor contradicts itself", "[safetensors][error]") {
  const TemporaryFolder folder("write");
  const auto path = folder.path() / "a.safetensors";
  const std::vector<HostTensor> twice = {floats("a", {1}, {1}), floats("a", {1}, {2})};
  const std::vector<HostTensor> short_bytes = {floats("a", {3}, {1})};

  CHECK(write_safetensors(path, twice).error().code == ErrorCode::invalid_argument);
  CHECK(write_safetensors(path, short_bytes).error().code == ErrorCode::invalid_argument);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(write_safetensors(folder.path() / "absent" / "a", {}).error().code == ErrorCode::io_error);
}
