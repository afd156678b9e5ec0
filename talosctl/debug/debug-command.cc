// debug log-level <service> [<level>]
#include "common/base/error.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/debug/debug-commands.h"

namespace talos::talosctl {
namespace {

using List = rpc::Services::ListResults;
using Set = rpc::Services::SetLogLevelResults;

kj::StringPtr nameOf(rpc::LogLevel level) {
  KJ_IF_MAYBE (known, capnp::toDynamic(level).getEnumerant()) return known->getProto().getName();
  return "unknown"_kj;
}

rpc::LogLevel levelNamed(kj::StringPtr name) {
  for (auto known : capnp::Schema::from<rpc::LogLevel>().getEnumerants()) {
    if (known.getProto().getName() == name) {
      return static_cast<rpc::LogLevel>(known.getOrdinal());
    }
  }
  failUsage(kj::str("\"", name, "\" is not a valid level; use debug, info, warning or error"));
}

kj::Promise<int> showLevels(Invocation& call) {
  auto session = co_await openSession(call);
  auto answers = co_await askAll<List>(*session, [](rpc::Node::Client node) {
    return node.servicesRequest().send().getServices().listRequest().send();
  });
  kj::Maybe<kj::StringPtr> wanted;
  if (call.arguments.size() > 0) wanted = call.arguments[0];
  auto format = formatOf(call);
  Documents documents(call, format);
  Table table({"NODE", "SERVICE", "LEVEL"});
  size_t found = 0;
  for (auto& answer : answers.good) {
    for (auto service : answer.value.getServices()) {
      if (wanted.orDefault(service.getId()) != service.getId()) continue;
      ++found;
      if (format == Format::kTable) {
        table.add(answer.node, service.getId(), nameOf(service.getLogLevel()));
      } else {
        documents.answer(answer.node, dynamic<rpc::Service>(service));
      }
    }
  }
  for (auto& f : answers.failures) {
    if (format != Format::kTable) documents.failure(f);
  }
  if (found > 0 && format == Format::kTable) outTable(call, table.render());
  int status = conclude(call, answers.failures, answers.good.size(), Partial::kIsSuccess);
  if (found == 0 && answers.good.size() > 0) {
    fail(ErrorKind::kNotFound, kj::str("service \"", wanted.orDefault("any"),
                                       "\" is not registered on any of the nodes"));
  }
  co_return status;
}

kj::Promise<int> runLogLevel(Invocation& call) {
  if (call.arguments.size() < 2) return showLevels(call);
  kj::StringPtr id = call.arguments[0];
  auto level = levelNamed(call.arguments[1]);
  return silently<Set>(call, [id, level](rpc::Node::Client node) {
    auto request = node.servicesRequest().send().getServices().setLogLevelRequest();
    request.setId(id);
    request.setLevel(level);
    return request.send();
  });
}

}  // namespace

void addDebugCommands(Command& root) {
  auto& debug = root.add("debug", "Look into the programs of a node while they run");
  auto& level = debug.add("log-level", "Show or set the level of a service's log");
  level.arguments = "[<service> [<level>]]";
  level.most = 2;
  level.argumentChoices = {{}, {"debug", "info", "warning", "error"}};
  level.details =
      "It counts at once, without a restart of the service, and until the node is rebooted: then\n"
      "the level is info again.";
  addStreamOutputFlag(level);
  level.run = runLogLevel;
  addStackCommands(debug);
}

}  // namespace talos::talosctl
