// An apid of a node in foreign hands, for lying-node.h: apid/main.cc with another localNode(). The
// node's machine config is shown with the JSON Patch of a file, which the test writes when the node
// begins to lie; the members of the cluster and the content of other files are shown in the same
// way. Each config that the node is sent is in the log of the service, line by line, and each call
// for Kubernetes, because such calls may carry the key of a client.
#include <capnp/membrane.h>
#include <unistd.h>

#include <sstream>

#include "apid/gate/local-node.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/base/resource.h"
#include "rpc/files.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/kubernetes.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/config/patches.h"

namespace talos::apid {
namespace {

// apid may read this folder, and root alone puts files there from outside.
kj::Maybe<kj::String> lieAbout(kj::StringPtr subject) {
  auto path = kj::str(kNetworkdState, "/lie-", subject);
  if (access(path.cStr(), F_OK) != 0) return nullptr;
  return readFile(path);
}

class LyingResources final : public rpc::Resources::Server {
 public:
  explicit LyingResources(rpc::Resources::Client inner) : inner(kj::mv(inner)) {}

  kj::Promise<void> get(GetContext context) override {
    auto request = inner.getRequest();
    request.setKind(context.getParams().getKind());
    request.setId(context.getParams().getId());
    auto answer = co_await request.send();
    context.setResults(answer);
    auto resource = context.getResults().getResource();
    if (resource.getMetadata().getType() != typeName<rpc::MachineConfigSpec>()) co_return;
    KJ_IF_MAYBE (patch, lieAbout("config")) {
      kj::Vector<talosctl::Patch> patches;
      patches.add(talosctl::Patch{kj::str("the lie"), kj::mv(*patch)});
      auto spec = resource.getSpec().getAs<rpc::MachineConfigSpec>();
      spec.setDocument(
          talosctl::applyPatches(spec.asReader().getDocument(), "the node's config", patches));
    }
  }

  kj::Promise<void> list(ListContext context) override {
    auto kind = context.getParams().getKind();
    if (kind.getType() == typeName<rpc::MemberSpec>()) {
      KJ_IF_MAYBE (members, lieAbout("members")) {
        inventMembers(*members, context.getResults());
        co_return;
      }
    }
    auto request = inner.listRequest();
    request.setKind(kind);
    auto answer = co_await request.send();
    context.setResults(answer);
  }

 private:
  rpc::Resources::Client inner;

  // Fills in a list of members, because a worker has no list. Each line: "NAME ADDRESS TYPE".
  static void inventMembers(kj::StringPtr text, rpc::Resources::ListResults::Builder results) {
    std::istringstream lines(text.cStr());
    kj::Vector<kj::String> fields;
    for (std::string field; lines >> field;) fields.add(kj::str(field.c_str()));
    auto list = results.initResources(fields.size() / 3);
    for (auto i : kj::indices(list)) {
      auto& name = fields[3 * i];
      auto metadata = list[i].initMetadata();
      metadata.setType(typeName<rpc::MemberSpec>());
      metadata.setId(name);
      auto spec = list[i].getSpec().initAs<rpc::MemberSpec>();
      spec.setHostname(name);
      spec.initAddresses(1).set(0, fields[3 * i + 1]);
      spec.setMachineType(fields[3 * i + 2]);
    }
  }
};

class RecordedConfiguration final : public rpc::Configuration::Server {
 public:
  explicit RecordedConfiguration(rpc::Configuration::Client inner) : inner(kj::mv(inner)) {}

  kj::Promise<void> apply(ApplyContext context) override {
    auto asked = context.getParams().getRequest();
    auto rest = kj::heapString(asked.getDocument().asChars());
    log::info("received a config", {{"bytes", rest.size()}});
    for (kj::StringPtr text = rest; text.size() > 0;) {
      auto end = text.findFirst('\n').orDefault(text.size() - 1);
      log::info("received", {{"line", kj::heapString(text.slice(0, end + 1))}});
      text = text.slice(end + 1);
    }
    auto request = inner.applyRequest();
    request.setRequest(asked);
    auto answer = co_await request.send();
    context.setResults(answer);
  }

 private:
  rpc::Configuration::Client inner;
};

class LyingFiles final : public rpc::Files::Server {
 public:
  explicit LyingFiles(kj::String content) : content(kj::mv(content)) {}

  kj::Promise<void> read(ReadContext context) override {
    auto write = context.getParams().getSink().writeRequest();
    write.setBytes(content.asBytes());
    co_await write.send();
  }

 private:
  kj::String content;
};

class Lies final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t interfaceId, uint16_t methodId,
                                                   capnp::Capability::Client target) override {
    // Configuration.apply @0, Resources.get @1 and list @2, Files.read @2
    constexpr uint16_t kApply = 0, kGet = 1, kList = 2, kRead = 2;
    if (interfaceId == capnp::typeId<rpc::Kubernetes>()) {
      log::info("received a call for Kubernetes", {{"method", methodId}});
    }
    if (interfaceId == capnp::typeId<rpc::Files>() && methodId == kRead) {
      KJ_IF_MAYBE (content, lieAbout("files")) {
        return capnp::Capability::Client(kj::heap<LyingFiles>(kj::mv(*content)));
      }
    }
    if (interfaceId == capnp::typeId<rpc::Resources>() && (methodId == kGet || methodId == kList)) {
      return capnp::Capability::Client(kj::heap<LyingResources>(target.castAs<rpc::Resources>()));
    }
    if (interfaceId == capnp::typeId<rpc::Configuration>() && methodId == kApply) {
      return capnp::Capability::Client(
          kj::heap<RecordedConfiguration>(target.castAs<rpc::Configuration>()));
    }
    return nullptr;
  }
  kj::Maybe<capnp::Capability::Client> outboundCall(uint64_t, uint16_t,
                                                    capnp::Capability::Client) override {
    return nullptr;
  }
  kj::Own<capnp::MembranePolicy> addRef() override { return kj::addRef(*this); }
};

}  // namespace

// apid/main.cc, compiled for this program, calls it in place of localNode().
NodeOfRequest lyingNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                        kj::StringPtr machinedSocket, kj::Own<Budget::Account> account,
                        kj::StringPtr client);
NodeOfRequest lyingNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                        kj::StringPtr machinedSocket, kj::Own<Budget::Account> account,
                        kj::StringPtr client) {
  return [real = localNode(lowLevel, timer, machinedSocket, kj::mv(account), client)](
             kj::StringPtr request) mutable {
    return capnp::membrane(real(request), kj::refcounted<Lies>());
  };
}

}  // namespace talos::apid
