// Templates of the configuration: text with {placeholders}.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace memopd {

struct TemplateValue {
  std::string_view name;  ///< without braces
  std::string_view value;
};

/// `text_template` with each {name} of `values` replaced. Other braces stay, and what was put in is not looked at
/// again: a document that contains "{hint}" shows "{hint}". Pure.
[[nodiscard]] std::string fill_template(std::string_view text_template, std::initializer_list<TemplateValue> values);

/// One document of an observation. @param k  1-based; placeholders {k} {title} {text}
[[nodiscard]] std::string format_document(std::string_view document_template, std::int32_t k, std::string_view title,
                                          std::string_view text);

}  // namespace memopd
