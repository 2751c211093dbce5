// memopd retrieve serve|query: the retriever of a run, for people and for agents outside a run.
#include <csignal>
#include <cstdio>
#include <memory>

#include "actors/retriever_actor.hpp"
#include "envs/retrieval/corpus.hpp"
#include "envs/retrieval/server.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

struct RetrieveArguments {
  std::string env = "atlas";
  RetrieverConfig retriever;
  std::string text;
  RetrievalServerOptions server;
};

Expected<Bm25Index> open(const RetrieveArguments& arguments) {
  EnvConfig env;
  env.name = arguments.env;
  return open_index(arguments.retriever, env);
}

int run_query(const RetrieveArguments& arguments) {
  auto index = open(arguments);
  if (!index) {
    return report_error(index.error().message, kExitUsage);
  }
  auto documents = index->query(arguments.text, arguments.retriever.topk);
  if (!documents) {
    return report_error(documents.error().message, kExitRunFailed);
  }
  for (const Document& document : *documents) {
    std::printf("%8.3f  %s  %s\n", document.score, document.title.c_str(), document.text.c_str());
  }
  return kExitOk;
}

int run_serve(const RetrieveArguments& arguments) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto index = open(arguments);
  if (!index) {
    return report_error(index.error().message, kExitUsage);
  }
  auto server = RetrievalServer::start(std::make_shared<const Bm25Index>(*std::move(index)), arguments.server);
  if (!server) {
    return report_error(server.error().message, kExitRunFailed);
  }
  std::printf("serving http://%s:%d/retrieve, end with Ctrl-C\n", arguments.server.host.c_str(), (*server)->port());
  std::fflush(stdout);
  int number = 0;
  sigwait(&signals, &number);
  (*server)->stop();
  return kExitOk;
}

}  // namespace

void add_retrieve_commands(CLI::App& app, const ChooseCommand& choose) {
  auto arguments = std::make_shared<RetrieveArguments>();
  CLI::App* retrieve = app.add_subcommand("retrieve", "Search a corpus");
  retrieve->require_subcommand(1);
  const auto add_common = [&](CLI::App* command) {
    command->add_option("--env", arguments->env, "Environment whose documents are searched")->capture_default_str();
    command->add_option("--corpus", arguments->retriever.corpus, "JSONL {id, contents} instead");
    command->add_option("--index", arguments->retriever.index, "Index file instead");
  };
  CLI::App* query = retrieve->add_subcommand("query", "Print the best documents for a text");
  add_common(query);
  query->add_option("text", arguments->text, "What to search for")->required();
  query->add_option("--topk", arguments->retriever.topk, "Documents")->capture_default_str()->check(CLI::Range(1, 100));
  query->footer("Example: memopd retrieve query \"Kenya capital\"");
  choose(query, [arguments] { return run_query(*arguments); });

  CLI::App* serve = retrieve->add_subcommand("serve", "Serve POST /retrieve and GET /health");
  add_common(serve);
  serve->add_option("--host", arguments->server.host, "Address to bind")->capture_default_str();
  serve->add_option("--port", arguments->server.port, "Port; 0 = any free one")->capture_default_str();
  serve->footer("Example: memopd retrieve serve --port 8013");
  choose(serve, [arguments] { return run_serve(*arguments); });
}

}  // namespace memopd
