// crashes [<name> [--core <file> | --remove]] [--symbols <file or folder>]
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/resource.h"
#include "talosctl/debug/crash-text.h"
#include "talosctl/debug/debug-commands.h"
#include "talosctl/debug/symbol-files.h"

namespace talos::talosctl {
namespace {

using Listed = rpc::Resources::ListResults;
using Core = rpc::Services::CoreResults;
using Removed = rpc::Services::RemoveCrashResults;

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
    call.outBytes(renderCrash(crash, table));
  }
}

// Prints documents with the function names after the addresses, as the text output has them.
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

// Saves a core to a file, for a debugger. The user has to name the node of the core.
kj::Promise<int> saveCore(Invocation& call, kj::StringPtr name) {
  auto session = co_await openSingle(call);
  auto node = session->client.node(session->client.nodes()[0]);
  auto request = node.servicesRequest().send().getServices().coreRequest();
  request.setReport(name);
  kj::Promise<capnp::Response<Core>> pending = request.send();
  auto answer = co_await within(call.deps.timer, session->deadline, kj::mv(pending));
  auto core = unpackedCore(answer.getCore());
  kj::StringPtr file = call.text("core");
  writeFileAtomically(file, core, 0600);
  call.err(kj::str("core saved to \"", file, "\" (", core.size(), " bytes)\n"));
  co_return 0;
}

kj::Promise<int> removeReport(Invocation& call, kj::StringPtr name) {
  auto session = co_await openSingle(call);
  auto node = session->client.node(session->client.nodes()[0]);
  auto request = node.servicesRequest().send().getServices().removeCrashRequest();
  request.setReport(name);
  kj::Promise<capnp::Response<Removed>> pending = request.send();
  co_await within(call.deps.timer, session->deadline, kj::mv(pending)).ignoreResult();
  call.done = kj::str("removed the report ", name);
  co_return 0;
}

kj::Promise<int> runCrashes(Invocation& call) {
  kj::StringPtr name = call.arguments.size() > 0 ? kj::StringPtr(call.arguments[0]) : ""_kj;
  auto format = formatOf(call);
  for (auto flag : {"core"_kj, "remove"_kj, "symbols"_kj}) {
    bool needs = flag != "symbols" || format == Format::kTable;
    if (needs && call.given(flag) && name.size() == 0) {
      failUsage(kj::str("--", flag, " needs the name of a report"));
    }
  }
  if (call.given("core") && call.on("remove")) failUsage("use either --core or --remove");
  if (call.given("core")) co_return co_await saveCore(call, name);
  if (call.on("remove")) co_return co_await removeReport(call, name);
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
      "contents of memory. A node keeps the newest three of each service over reboots. A core is\n"
      "there when talosctl debug cores says so.";
  addSymbolsFlag(crashes);
  crashes.flag({.name = "core",
                .kind = FlagKind::kText,
                .help = "save the core of the report into this file, for a debugger"});
  crashes.flag({.name = "remove", .help = "remove the report, and its core, from the node"});
  addOutputFlag(crashes);
  crashes.run = runCrashes;
}

}  // namespace talos::talosctl
