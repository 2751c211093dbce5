#include "actors/expert_actor.hpp"

#include <span>
#include <string>
#include <utility>

#include "actors/role_setup.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("expert", ExpertActor, RoleInit)
namespace {

std::string span_text(const Generate& request, const Tokenizer& tokenizer, bool is_question) {
  std::string text;
  const std::span<const std::int32_t> ids = request.prompt_token_ids;
  for (const Span& span : request.spans) {
    const bool belongs = is_question ? span.kind == SpanKind::question
                                     : span.kind == SpanKind::kept || span.kind == SpanKind::observation;
    if (belongs) {
      text += tokenizer.decode(
          ids.subspan(static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end - span.begin)));
    }
  }
  return text;
}

// The question as the environment gave it: without the text that [protocol] question puts around it.
std::string unwrap(std::string text, const std::string& question_template) {
  constexpr std::string_view kPlace = "{question}";
  const auto place = question_template.find(kPlace);
  if (place == std::string::npos) {
    return text;
  }
  const std::string before = question_template.substr(0, place);
  const std::string after = question_template.substr(place + kPlace.size());
  if (text.starts_with(before)) {
    text.erase(0, before.size());
  }
  if (text.ends_with(after)) {
    text.erase(text.size() - after.size());
  }
  return text;
}

}  // namespace

ExpertActor::ExpertActor(RoleInit init) : init_(std::move(init)) {}

void ExpertActor::setup() {
  on(&ExpertActor::generate);
  if (auto loaded = load(); !loaded) {
    fail(loaded.error());
  }
}

Expected<void> ExpertActor::load() {
  auto config = load_role_config(init_);
  if (!config) {
    return unexpected(config.error());
  }
  auto tokenizer = load_role_tokenizer(init_);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  tokenizer_ = *std::move(tokenizer);
  question_template_ = config->protocol.question;
  const EnvConfig& env = config->env.front();
  auto expert = make_expert(env.name, environment_options(env));
  if (!expert) {
    return unexpected(expert.error());
  }
  expert_ = *std::move(expert);
  return {};
}

Expected<Generated> ExpertActor::generate(const Generate& request) {
  const std::string context = span_text(request, *tokenizer_, false);
  auto response = expert_->respond(unwrap(span_text(request, *tokenizer_, true), question_template_), context);
  if (!response) {
    return unexpected(response.error());
  }
  Generated generated;
  generated.response_token_ids = tokenizer_->encode(*response);
  generated.rollout_log_probs.assign(generated.response_token_ids.size(), 0.0F);
  generated.policy_versions = {{0, static_cast<std::int32_t>(generated.response_token_ids.size())}};
  return generated;
}

}  // namespace memopd
