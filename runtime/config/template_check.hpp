// Placeholders of the [protocol] templates. Internal to this folder.
#pragma once

#include <string>
#include <vector>

namespace memopd::detail {

/// What is wrong with a template: an unknown {word}, or no {required}. "" as `required` asks for nothing.
/// Braces around anything but lower-case letters and _ are plain text.
[[nodiscard]] std::vector<std::string> template_problems(const std::string& text,
                                                         const std::vector<std::string>& allowed,
                                                         const std::string& required);

}  // namespace memopd::detail
