// The monitor's page as text. Internal to this folder; the build makes its source from tools/monitor/page.html.
#pragma once

#include <string_view>

namespace memopd::detail {

/// HTML; "{{NONCE}}" stands where the nonce of its Content-Security-Policy belongs.
[[nodiscard]] std::string_view monitor_page();

}  // namespace memopd::detail
