// __complete: the requests of shells while a user types (talosctl/cli/completion.h).
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/resource.h"
#include "common/talosconfig/talosconfig.h"
#include "common/wire/resource-registry.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/cli/commandline.h"
#include "talosctl/cli/completion.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/node-answers.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

// Short, because the user waits while typing.
constexpr kj::Duration kTyping = 2 * kj::SECONDS;
constexpr size_t kMostCandidates = 1000;

class CandidateNames final : public rpc::FileSink::Server {
 public:
  CandidateNames(kj::Vector<kj::String>& names, kj::StringPtr folder)
      : names(names), folder(kj::str(folder)) {}
  kj::Promise<void> files(FilesContext context) override {
    constexpr uint32_t kKind = 0170000, kFolder = 0040000;
    for (auto file : context.getParams().getFiles()) {
      if (file.getRelativeName() == "." || names.size() >= kMostCandidates) continue;
      bool isFolder = (file.getMode() & kKind) == kFolder;
      names.add(kj::str(folder, file.getRelativeName(), isFolder ? "/" : ""));
    }
    return kj::READY_NOW;
  }

 private:
  kj::Vector<kj::String>& names;
  kj::String folder;
};

// Requests the ids of all resources of a type. Secrets are not offered: their ids may be read by
// fewer roles, and a refused request would be in the audit log at each Tab.
kj::Promise<void> addIds(rpc::Node::Client node, kj::StringPtr type,
                         kj::Vector<kj::String>& names) {
  auto request = node.resourcesRequest().send().getResources().listRequest();
  request.initKind().setType(type);
  auto list = co_await request.send();
  for (auto resource : list.getResources()) {
    if (names.size() < kMostCandidates) names.add(kj::str(resource.getMetadata().getId()));
  }
}

kj::Promise<void> addContainers(rpc::Node::Client node, bool kubernetes,
                                kj::Vector<kj::String>& names) {
  auto request = node.containersRequest().send().getContainers().listRequest();
  request.setKubernetes(kubernetes);
  auto list = co_await request.send();
  for (auto container : list.getContainers()) {
    if (names.size() < kMostCandidates) names.add(kj::str(container.getId()));
  }
}

// Requests names from the first node, or from the endpoint if no node is named.
kj::Promise<kj::Vector<kj::String>> askNode(Invocation& call, const Completion& wanted) {
  Client client(call.deps, resolveTarget(call));
  auto name = client.nodes().size() > 0 ? kj::StringPtr(client.nodes()[0]) : ""_kj;
  co_await client.connect(kTyping);
  auto node = client.node(name);
  kj::Vector<kj::String> names;
  if (wanted.source == Source::kServices) {
    auto list = co_await node.servicesRequest().send().getServices().listRequest().send();
    for (auto service : list.getServices()) names.add(kj::str(service.getId()));
  } else if (wanted.source == Source::kLogs) {
    auto list = co_await node.logsRequest().send().getLogs().listRequest().send();
    for (auto id : list.getIds()) names.add(kj::str(id));
  } else if (wanted.source == Source::kContainers) {
    co_await addContainers(node, wanted.kubernetes, names);
  } else if (wanted.source == Source::kTokens) {
    auto list = co_await node.etcdRequest().send().getEtcd().joinTokensRequest().send();
    for (auto token : list.getTokens()) names.add(kj::str(token.getId()));
  } else if (wanted.source == Source::kCrashes) {
    co_await addIds(node, typeName<rpc::CrashReportSpec>(), names);
  } else if (wanted.source == Source::kResourceIds) {
    Registry registry;
    auto& type = registry.find(wanted.arguments[0]);
    if (!type.sensitive) co_await addIds(node, type.name, names);
  } else {
    auto end = wanted.typed.findLast('/');
    auto folder =
        end.map([&](size_t at) { return kj::str(wanted.typed.slice(0, at + 1)); }).orDefault([] {
          return kj::str("/");
        });
    auto request = node.filesRequest().send().getFiles().listRequest();
    request.setRoot(folder);
    request.setSink(kj::heap<CandidateNames>(names, folder));
    co_await request.send();
  }
  co_return kj::mv(names);
}

void addContexts(Invocation& call, kj::Vector<kj::String>& names) {
  auto config = Talosconfig::load(configPath(call));
  for (auto& entry : config.contexts()) names.add(kj::str(entry.key));
}

void addHosts(Invocation& call, Source source, kj::Vector<kj::String>& names) {
  auto config = Talosconfig::load(configPath(call));
  auto& context = config.resolve(call.text("context"));
  for (auto& endpoint : context.endpoints) names.add(kj::str(endpoint));
  if (source == Source::kNodes) {
    for (auto& node : context.nodes) {
      bool known = false;
      for (auto& name : names) known = known || name == node;
      if (!known) names.add(kj::str(node));
    }
  }
}

// Adds the local clusters of the usual folder.
void addClusters(Invocation& call, kj::Vector<kj::String>& names) {
  KJ_IF_MAYBE (home, call.deps.environment("HOME")) {
    auto folder = kj::str(*home, "/.talos/clusters");
    for (auto& name : namesIn(folder)) {
      bool whole = access(kj::str(folder, "/", name, "/state.yaml").cStr(), F_OK) == 0;
      if (whole) names.add(kj::mv(name));
    }
  }
}

kj::Promise<kj::Vector<kj::String>> moreCandidates(Invocation& call, const Completion& wanted) {
  kj::Vector<kj::String> names;
  switch (wanted.source) {
    case Source::kNothing:
      break;
    case Source::kLocalFiles:
      names.add(kj::str(":files"));
      break;
    case Source::kContexts:
      addContexts(call, names);
      break;
    case Source::kNodes:
    case Source::kEndpoints:
      addHosts(call, wanted.source, names);
      break;
    case Source::kTypes:
      for (auto& type : Registry().types()) {
        // "services", as `get rd` shows the type and users type it
        auto dot = type.name.findFirst('.').orDefault(type.name.size());
        auto plural = kj::heapString(type.name.slice(0, dot));
        for (char& c : plural) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        names.add(kj::mv(plural));
      }
      break;
    case Source::kClusters:
      addClusters(call, names);
      break;
    case Source::kServices:
    case Source::kLogs:
    case Source::kContainers:
    case Source::kTokens:
    case Source::kCrashes:
    case Source::kResourceIds:
    case Source::kNodeFiles: {
      auto pending = askNode(call, wanted);
      names = co_await within(call.deps.timer, kTyping, kj::mv(pending));
    }
  }
  co_return kj::mv(names);
}

kj::Promise<int> runComplete(Invocation& call) {
  auto words = KJ_MAP(word, call.arguments) {
    return kj::StringPtr(word);
  };
  auto wanted = completionFor(call.root, words);
  for (auto& known : wanted.connection) {
    bool list = known.flag == "nodes" || known.flag == "endpoints";
    auto set = [&](Invocation::Value& value) {
      value.given = true;
      if (!list) return (void)value.texts.add(kj::str(known.value));
      for (auto& part : splitCsv(known.value)) value.texts.add(kj::mv(part));
    };
    KJ_IF_MAYBE (value, call.values.find(known.flag)) set(*value);
  }
  for (auto& candidate : wanted.candidates) {
    call.out(candidate.help.size() > 0 ? kj::str(candidate.word, "\t", candidate.help, "\n")
                                       : kj::str(candidate.word, "\n"));
  }
  kj::Vector<kj::String> more;
  try {
    more = co_await moreCandidates(call, wanted);
  } catch (const kj::Exception&) {
    // Without a node or a config there are no candidates, and an error would disturb the typing.
    co_return 0;
  }
  for (auto& name : more) {
    bool files = wanted.source == Source::kLocalFiles;
    auto shown = printable(name);
    if (files || shown.startsWith(wanted.typed)) {
      call.out(kj::str(files ? ""_kj : kj::StringPtr(wanted.ahead), shown, "\n"));
    }
  }
  co_return 0;
}

}  // namespace

void addCompleteCommand(Command& root) {
  auto& complete = root.add("__complete", "Complete a command line, for completion scripts");
  complete.hidden = complete.anyFlags = true;
  complete.arguments = "-- [word...]";
  complete.most = kj::maxValue;
  complete.run = runComplete;
}

}  // namespace talos::talosctl
