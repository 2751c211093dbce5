#include "runtime/cluster/process_output.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace memopd {

std::filesystem::path output_file_of(const std::filesystem::path& folder, std::string_view process) {
  std::string name(process);
  std::replace(name.begin(), name.end(), '/', '-');
  return folder / (name + ".out");
}

bool OutputSpool::turn() {
  std::int64_t budget = kTurnBytes;
  for (auto& [process, offset] : offsets_) {
    while (budget > 0) {
      const std::int64_t sent = send_some(process, offset, budget);
      if (sent < 0) {
        return true;
      }
      if (sent == 0) {
        break;
      }
      budget -= sent;
    }
  }
  return budget <= 0;
}

/// @return bytes that were taken; 0: nothing is there; -1: the head does not take it now
std::int64_t OutputSpool::send_some(const std::string& process, std::int64_t& offset, std::int64_t budget) {
  const auto path = output_file_of(folder_, process);
  std::error_code failed;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, failed));
  if (failed || size <= offset) {
    return 0;
  }
  ProcessOutput output{process, {}};
  std::int64_t skipped = 0;
  if (size - offset > kMaxSpoolBytes) {
    skipped = size - offset - kMaxSpoolBytes / 2;
    output.text = "(" + std::to_string(skipped) + " bytes were left out: the head was too slow for them)\n";
  }
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset + skipped);
  std::string text(static_cast<std::size_t>(std::min({budget, kFrameBytes, size - offset - skipped})), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  const auto taken = static_cast<std::int64_t>(text.size());
  output.text += text;
  if (taken == 0) {
    return 0;
  }
  if (!send_(output)) {
    return -1;
  }
  offset += skipped + taken;
  return taken;
}

Expected<void> append_output(const std::filesystem::path& folder, const ProcessOutput& output) {
  const auto path = output_file_of(folder, output.process);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file.write(output.text.data(), static_cast<std::streamsize>(output.text.size()));
  file.flush();
  return file ? Expected<void>()
              : Expected<void>(unexpected(ErrorCode::io_error, path.string() + ": cannot be written"));
}

}  // namespace memopd
