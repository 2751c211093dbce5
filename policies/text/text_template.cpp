#include "policies/text/text_template.hpp"

namespace memopd {

std::string fill_template(std::string_view text_template, std::initializer_list<TemplateValue> values) {
  std::string result;
  for (std::size_t i = 0; i < text_template.size();) {
    const TemplateValue* match = nullptr;
    if (text_template[i] == '{') {
      const std::string_view rest = text_template.substr(i + 1);
      for (const TemplateValue& value : values) {
        const bool is_named =
            rest.substr(0, value.name.size()) == value.name && rest.substr(value.name.size(), 1) == "}";
        match = is_named ? &value : match;
      }
    }
    if (match != nullptr) {
      result.append(match->value);
      i += match->name.size() + 2;
    } else {
      result.push_back(text_template[i++]);
    }
  }
  return result;
}

std::string format_document(std::string_view document_template, std::int32_t k, std::string_view title,
                            std::string_view text) {
  return fill_template(document_template, {{"k", std::to_string(k)}, {"title", title}, {"text", text}});
}

}  // namespace memopd
