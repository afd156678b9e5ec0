#include "talosctl/report/node-report.h"

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/resource.h"
#include "common/config/config-redact.h"
#include "common/memory/zeroize.h"
#include "common/talosconfig/talosconfig.h"
#include "common/wire/resource-registry.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

constexpr kj::Duration kAnswer = 10 * kj::SECONDS;  // deadline of an answer of a healthy node
constexpr kj::Duration kPart = 60 * kj::SECONDS;    // 1 MiB of a log from a slow, emulated node

struct Part {
  kj::StringPtr file;
  std::initializer_list<kj::StringPtr> arguments;
};

const Part kParts[] = {
    {"version.txt", {"version"}},
    {"status.txt", {"status"}},
    {"services.txt", {"services"}},
    {"events.txt", {"events", "--tail", "-1", "--once"}},
    {"events-previous-boot.txt", {"events", "--previous"}},
    {"dmesg.log", {"dmesg"}},
    {"processes.txt", {"processes"}},
    {"memory.txt", {"memory", "--verbose"}},
    {"mounts.txt", {"mounts"}},
    {"disks.txt", {"disks"}},
    {"interfaces.txt", {"interfaces"}},
    {"routes.txt", {"routes"}},
    {"time.txt", {"time"}},
};

class Reporter {
 public:
  Reporter(Invocation& call, const Access& access, kj::StringPtr node, NodeFolder& folder)
      : call(call), access(access), node(node), folder(folder) {}

  kj::Promise<void> command(kj::StringPtr file, kj::ArrayPtr<const kj::StringPtr> arguments) {
    folder.begin(file);
    auto captured = co_await capture(call, access, node, arguments, kPart);
    if (captured.out.size() > 0) folder.add(file, captured.out);
    if (captured.err.size() > 0) folder.error(file, captured.err);
  }

  kj::Promise<void> logs(kj::ArrayPtr<const kj::String> ids) {
    for (auto& id : ids) {
      kj::StringPtr arguments[] = {"logs", id};
      co_await command(kj::str("logs/", fileName(id), ".log"), arguments);
    }
  }

  kj::Promise<void> resources() {
    Registry registry;
    for (auto& type : registry.types()) {
      kj::StringPtr arguments[] = {"get", type.name, "--output", type.sensitive ? "table" : "yaml"};
      co_await command(kj::str("resources/", type.name, type.sensitive ? ".txt" : ".yaml"),
                       arguments);
    }
  }

  kj::Promise<void> config(Client& client) {
    constexpr kj::StringPtr kFile = "config.yaml"_kj;
    folder.begin(kFile);
    try {
      auto request =
          client.node(node).sensitiveResourcesRequest().send().getResources().getRequest();
      request.initKind().setNamespace("config");
      request.getKind().setType(typeName<rpc::MachineConfigSpec>());
      request.setId("v1alpha1");
      kj::Promise<capnp::Response<rpc::Resources::GetResults>> answer = request.send();
      auto got = co_await within(call.deps.timer, kAnswer, kj::mv(answer));
      auto spec = got.getResource().getSpec().getAs<rpc::MachineConfigSpec>();
      folder.add(kFile, config::redact(spec.getDocument()));
    } catch (const kj::Exception& e) {
      folder.error(kFile, messageOf(e));
    }
  }

 private:
  Invocation& call;
  const Access& access;
  kj::StringPtr node;
  NodeFolder& folder;

  // Replaces unsafe characters, because ids come from the node.
  static kj::String fileName(kj::StringPtr id) {
    auto name = kj::str(id);
    for (char& c : name) {
      bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '-' || c == '_';
      if (!plain) c = '_';
    }
    return name;
  }
};

}  // namespace

void NodeFolder::begin(kj::StringPtr file) {
  KJ_IF_MAYBE (slash, file.findFirst('/')) {
    archive.progress.set(index, kj::heapString(file.slice(0, *slash)));
  } else {
    archive.progress.set(index, file);
  }
}

void NodeFolder::add(kj::StringPtr file, kj::ArrayPtr<const char> content) {
  // Escaped, because readers may print the file on a terminal.
  archive.zip.add(kj::str(name, "/", file), printableText(content));
  ++added;
}

void NodeFolder::error(kj::StringPtr file, kj::StringPtr message) {
  bool ended = message.endsWith("\n");
  archive.errors.add(kj::str(name, "/", file, ": ", printableText(message), ended ? "" : "\n"));
}

kj::Own<Client> clientFor(Invocation& call, const Access& access) {
  auto config = Talosconfig::load(access.talosconfig);
  auto& context = config.resolve(access.context);
  Target target{
      .endpoints = {}, .nodes = {}, .credentials = context.credentials(), .fingerprints = {}};
  auto& endpoints = access.endpoints.size() > 0 ? access.endpoints : context.endpoints;
  for (auto& endpoint : endpoints) target.endpoints.add(kj::str(endpoint));
  return kj::heap<Client>(call.deps, kj::mv(target));
}

kj::Promise<kj::Array<kj::String>> logsOf(Invocation& call, Client& client, kj::StringPtr node) {
  auto deadline = kj::min(kAnswer, call.deadline());
  co_await client.connect(deadline);
  kj::Promise<capnp::Response<rpc::Logs::ListResults>> answer =
      client.node(node).logsRequest().send().getLogs().listRequest().send();
  auto list = co_await within(client.deps.timer, deadline, kj::mv(answer));
  co_return textsOf(list.getIds());
}

kj::Promise<bool> reportNode(Invocation& call, const Access& access, kj::StringPtr node,
                             NodeFolder& folder) {
  kj::Maybe<kj::Own<Client>> client;
  kj::Array<kj::String> ids;
  try {
    auto& made = client.emplace(clientFor(call, access));
    ids = co_await logsOf(call, *made, node);
  } catch (const kj::Exception& e) {
    folder.error("the node", messageOf(e));
    co_return false;
  }
  Reporter reporter(call, access, node, folder);
  for (auto& part : kParts) {
    co_await reporter.command(part.file,
                              kj::arrayPtr(part.arguments.begin(), part.arguments.size()));
  }
  co_await reporter.logs(ids);
  co_await reporter.config(*KJ_ASSERT_NONNULL(client));
  co_await reporter.resources();
  co_return true;
}

}  // namespace talos::talosctl
