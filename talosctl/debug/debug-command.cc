// debug log-level [<service> [<level>]], debug cores [<service> [on|off]]
#include "common/base/error.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/debug/debug-commands.h"

namespace talos::talosctl {
namespace {

using List = rpc::Services::ListResults;
using Set = rpc::Services::SetLogLevelResults;
using Keep = rpc::Services::KeepCoresResults;

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

// Shows a switch of all services, or of the named service, in a column with this title.
kj::Promise<int> showSwitch(Invocation& call, kj::StringPtr column,
                            kj::StringPtr (*of)(rpc::Service::Reader service)) {
  auto session = co_await openSession(call);
  auto answers = co_await askAll<List>(*session, [](rpc::Node::Client node) {
    return node.servicesRequest().send().getServices().listRequest().send();
  });
  kj::Maybe<kj::StringPtr> wanted;
  if (call.arguments.size() > 0) wanted = call.arguments[0];
  auto format = formatOf(call);
  Documents documents(call, format);
  Table table({"NODE", "SERVICE", column});
  size_t found = 0;
  for (auto& answer : answers.good) {
    for (auto service : answer.value.getServices()) {
      if (wanted.orDefault(service.getId()) != service.getId()) continue;
      ++found;
      if (format == Format::kTable) {
        table.add(answer.node, service.getId(), of(service));
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
  if (call.arguments.size() < 2) {
    return showSwitch(call, "LEVEL", [](auto service) { return nameOf(service.getLogLevel()); });
  }
  kj::StringPtr id = call.arguments[0];
  auto level = levelNamed(call.arguments[1]);
  call.done = kj::str(id, " logs at level ", call.arguments[1]);
  return silently<Set>(call, [id, level](rpc::Node::Client node) {
    auto request = node.servicesRequest().send().getServices().setLogLevelRequest();
    request.setId(id);
    request.setLevel(level);
    return request.send();
  });
}

kj::StringPtr nameOfSwitch(bool on) {
  return on ? "on"_kj : "off"_kj;
}

kj::Promise<int> runCores(Invocation& call) {
  if (call.arguments.size() < 2) {
    return showSwitch(call, "CORES",
                      [](auto service) { return nameOfSwitch(service.getKeepsCores()); });
  }
  kj::StringPtr id = call.arguments[0], wanted = call.arguments[1];
  bool keep = wanted == nameOfSwitch(true);
  if (!keep && wanted != nameOfSwitch(false)) {
    failUsage(kj::str("\"", wanted, "\" is not a valid setting; use on or off"));
  }
  call.done = kj::str(id, keep ? " keeps cores" : " keeps no cores");
  return silently<Keep>(call, [id, keep](rpc::Node::Client node) {
    auto request = node.servicesRequest().send().getServices().keepCoresRequest();
    request.setId(id);
    request.setKeep(keep);
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
  addOutputFlag(level);
  level.run = runLogLevel;
  auto& cores = debug.add("cores", "Show or set whether a crash of a service leaves a core");
  cores.arguments = "[<service> [on|off]]";
  cores.most = 2;
  cores.argumentChoices = {{}, {"on", "off"}};
  cores.details =
      "A core has the registers, the stack and the static data of the program, and not its heap. "
      "It is kept\nwith the report of the crash: talosctl crashes <name> --core <file>. The switch "
      "lasts until the node\nis rebooted.";
  addOutputFlag(cores);
  cores.run = runCores;
  addStackCommands(debug);
}

}  // namespace talos::talosctl
