// An apid of a node in foreign hands, for rotate-ca-liar-test: apid/main.cc with another
// localNode(). The node's machine config is shown with the JSON Patch of a file, which the test
// writes when the node begins to lie. Each config that the node is sent is in the log of the
// service, line by line.
#include <capnp/membrane.h>
#include <unistd.h>

#include "apid/gate/local-node.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/base/resource.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/config/patches.h"

namespace talos::apid {
namespace {

// apid may read this folder, and root alone puts files there from outside.
kj::String lieFile() {
  return kj::str(kNetworkdState, "/lie");
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
    auto path = lieFile();
    if (access(path.cStr(), F_OK) != 0) co_return;
    kj::Vector<talosctl::Patch> patches;
    patches.add(talosctl::Patch{kj::str("the lie"), readFile(path)});
    auto spec = resource.getSpec().getAs<rpc::MachineConfigSpec>();
    spec.setDocument(
        talosctl::applyPatches(spec.asReader().getDocument(), "the node's config", patches));
  }

 private:
  rpc::Resources::Client inner;
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

class Lies final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t interfaceId, uint16_t methodId,
                                                   capnp::Capability::Client target) override {
    constexpr uint16_t kApply = 0, kGet = 1;  // Configuration.apply @0, Resources.get @1
    if (interfaceId == capnp::typeId<rpc::Resources>() && methodId == kGet) {
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
