// crashes [<name>] [--symbols <file or folder>]
#include "common/base/error.h"
#include "common/base/resource.h"
#include "talosctl/debug/crash-text.h"
#include "talosctl/debug/debug-commands.h"
#include "talosctl/debug/symbol-files.h"

namespace talos::talosctl {
namespace {

using Listed = rpc::Resources::ListResults;

capnp::RemotePromise<Listed> listCrashes(rpc::Node::Client node) {
  auto request = node.resourcesRequest().send().getResources().listRequest();
  request.initKind().setType(typeName<rpc::CrashReportSpec>());
  return request.send();
}

kj::Vector<NodeCrash> crashesOf(const Answers<Listed>& answers, kj::StringPtr name) {
  kj::Vector<NodeCrash> crashes;
  for (auto& answer : answers.good) {
    for (auto resource : answer.value.getResources()) {
      auto id = resource.getMetadata().getId();
      if (name.size() > 0 && id != name) continue;
      crashes.add(NodeCrash{answer.node, id, resource.getSpec().getAs<rpc::CrashReportSpec>()});
    }
  }
  return crashes;
}

void printTexts(Invocation& call, kj::ArrayPtr<const NodeCrash> crashes, bool whole) {
  if (!whole) {
    if (crashes.size() > 0) outTable(call, renderCrashes(crashes));
    return;
  }
  for (auto& crash : crashes) {
    auto symbols = symbolsOf(call, crash.report.getBuildId());
    kj::Maybe<const crash::SymbolTable&> table;
    KJ_IF_MAYBE (s, symbols) table = *s;
    outText(call, renderCrash(crash, table));
  }
}

// As a text does, with the names behind the addresses.
void printDocuments(Invocation& call, Format format, kj::ArrayPtr<const NodeCrash> crashes,
                    kj::ArrayPtr<const Failure> failures) {
  Documents documents(call, format);
  for (auto& crash : crashes) {
    auto symbols = symbolsOf(call, crash.report.getBuildId());
    capnp::MallocMessageBuilder message;
    message.setRoot(crash.report);
    auto report = message.getRoot<rpc::CrashReportSpec>();
    KJ_IF_MAYBE (table, symbols) {
      auto stack = report.getStack();
      for (unsigned i = 0; i < stack.size(); ++i) {
        stack.set(i, describeFrame(stack.asReader()[i], *table));
      }
    }
    documents.answer(crash.node, dynamic<rpc::CrashReportSpec>(report.asReader()));
  }
  for (auto& failure : failures) documents.failure(failure);
}

kj::Promise<int> runCrashes(Invocation& call) {
  kj::StringPtr name = call.arguments.size() > 0 ? kj::StringPtr(call.arguments[0]) : ""_kj;
  auto format = formatOf(call);
  if (call.given("symbols") && name.size() == 0 && format == Format::kTable) {
    failUsage("--symbols needs the name of a report");
  }
  auto session = co_await openSession(call);
  auto answers = co_await askAll<Listed>(*session, listCrashes);
  auto crashes = crashesOf(answers, name);
  if (format == Format::kTable) {
    printTexts(call, crashes, name.size() > 0);
  } else {
    printDocuments(call, format, crashes, answers.failures);
  }
  int status = conclude(call, answers.failures, answers.good.size(), Partial::kIsSuccess);
  if (name.size() > 0 && crashes.empty() && answers.good.size() > 0) {
    fail(ErrorKind::kNotFound,
         kj::str("no node has a crash report \"", name, "\"; talosctl crashes lists them"));
  }
  co_return status;
}

}  // namespace

void addCrashCommands(Command& root) {
  auto& crashes = root.add("crashes", "List reports of crashes of a node's programs, or show one");
  crashes.arguments = "[<name>]";
  crashes.most = 1;
  crashes.details =
      "A report has the signal, the stack, the memory map and the last lines of the log, and no\n"
      "contents of memory. A node keeps the newest three of each service over reboots.";
  addSymbolsFlag(crashes);
  addOutputFlag(crashes);
  crashes.run = runCrashes;
}

}  // namespace talos::talosctl
