#include "machined/api/node-server.h"

#include <capnp/membrane.h>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/wire/one-call.h"
#include "common/wire/request-id.h"

namespace talos::machined {
namespace {

constexpr unsigned kRootUid = 0;

struct CountedCall final : public OneCall {
  explicit CountedCall(ClientCalls::Slot slot) : slot(kj::mv(slot)) {}
  ClientCalls::Slot slot;
};

class CountedCalls final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  explicit CountedCalls(kj::Own<ClientCalls> calls) : calls(kj::mv(calls)) {}

  // Other interfaces are reached through these, or belong to one of their calls.
  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t interface, uint16_t,
                                                   capnp::Capability::Client target) override {
    if (interface != capnp::typeId<rpc::Network>() && interface != capnp::typeId<rpc::Etcd>() &&
        interface != capnp::typeId<rpc::Kubernetes>()) {
      return nullptr;
    }
    kj::Own<OneCall> call;
    auto refusal = kj::runCatchingExceptions(
        [&] { call = kj::heap<CountedCall>(calls->enter(CallKind::kDaemon)); });
    // Returns a broken capability instead of throwing: the call fails, but its connection does not.
    KJ_IF_MAYBE (e, refusal) return capnp::Capability::Client(kj::mv(*e));
    return forOneCall(kj::mv(target), kj::mv(call));
  }
  kj::Maybe<capnp::Capability::Client> outboundCall(uint64_t, uint16_t,
                                                    capnp::Capability::Client) override {
    return nullptr;  // the caller's own capabilities
  }
  kj::Own<capnp::MembranePolicy> addRef() override { return kj::addRef(*this); }

 private:
  kj::Own<ClientCalls> calls;
};

class NodeServer final : public rpc::Node::Server {
 public:
  NodeServer(NodeParts parts, kj::StringPtr request)
      : parts(kj::mv(parts)), request(kj::str(request)) {}

  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(parts.machine);
    return kj::READY_NOW;
  }
  kj::Promise<void> services(ServicesContext context) override {
    context.getResults().setServices(parts.services);
    return kj::READY_NOW;
  }
  kj::Promise<void> events(EventsContext context) override {
    context.getResults().setEvents(parts.events);
    return kj::READY_NOW;
  }
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setLogs(parts.logs);
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext context) override {
    context.getResults().setFiles(parts.files);
    return kj::READY_NOW;
  }
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(parts.resources);
    return kj::READY_NOW;
  }
  // The capability is requested again for each call, because it is lost with its connection.
  kj::Promise<void> network(NetworkContext context) override {
    auto forwarded = parts.networkd.networkRequest();
    forwarded.setRequest(request);
    context.getResults().setNetwork(forwarded.send().getNetwork());
    return kj::READY_NOW;
  }
  kj::Promise<void> sensitiveResources(SensitiveResourcesContext context) override {
    context.getResults().setResources(parts.sensitiveResources);
    return kj::READY_NOW;
  }
  kj::Promise<void> configuration(ConfigurationContext context) override {
    context.getResults().setConfiguration(parts.configuration);
    return kj::READY_NOW;
  }
  kj::Promise<void> storage(StorageContext context) override {
    context.getResults().setStorage(parts.storage);
    return kj::READY_NOW;
  }
  kj::Promise<void> containers(ContainersContext context) override {
    context.getResults().setContainers(parts.containers);
    return kj::READY_NOW;
  }
  kj::Promise<void> upgrades(UpgradesContext context) override {
    context.getResults().setUpgrades(parts.upgrades);
    return kj::READY_NOW;
  }
  kj::Promise<void> etcd(EtcdContext context) override {
    auto forwarded = parts.etcdSupervisor.etcdRequest();
    forwarded.setRequest(request);
    context.getResults().setEtcd(forwarded.send().getEtcd());
    return kj::READY_NOW;
  }
  kj::Promise<void> kubernetes(KubernetesContext context) override {
    auto forwarded = parts.kubed.kubernetesRequest();
    forwarded.setRequest(request);
    context.getResults().setKubernetes(forwarded.send().getKubernetes());
    return kj::READY_NOW;
  }

 private:
  NodeParts parts;
  kj::String request;
};

class MachinedServer final : public rpc::Machined::Server {
 public:
  MachinedServer(unsigned uid, rpc::Node::Client node, rpc::Node::Client maintenanceNode,
                 rpc::Store::Client store, kj::Function<void(rpc::AuditRecord::Reader)> keep,
                 kj::Function<void(kj::StringPtr)> callsFor, rpc::LogFeed::Client feed,
                 kj::Maybe<NodeOfRequest> ofRequest, kj::Maybe<NodeOfRequest> maintenanceOfRequest,
                 rpc::EtcdSupervisor::Client etcdSupervisor)
      : uid(uid),
        nodeClient(kj::mv(node)),
        maintenanceClient(kj::mv(maintenanceNode)),
        storeClient(kj::mv(store)),
        keep(kj::mv(keep)),
        callsFor(kj::mv(callsFor)),
        feed(kj::mv(feed)),
        ofRequest(kj::mv(ofRequest)),
        maintenanceOfRequest(kj::mv(maintenanceOfRequest)),
        etcdSupervisor(kj::mv(etcdSupervisor)) {}

  kj::Promise<void> node(NodeContext context) override {
    checkCaller();
    auto params = context.getParams();
    callsFor(params.getClient());
    context.getResults().setNode(nodeFor(params.getRequest(), ofRequest, nodeClient));
    return kj::READY_NOW;
  }
  kj::Promise<void> maintenanceNode(MaintenanceNodeContext context) override {
    checkCaller();
    context.getResults().setNode(
        nodeFor(context.getParams().getRequest(), maintenanceOfRequest, maintenanceClient));
    return kj::READY_NOW;
  }
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(storeClient);
    return kj::READY_NOW;
  }
  kj::Promise<void> audit(AuditContext context) override {
    if (!mayAudit(uid)) {
      fail(ErrorKind::kPermissionDenied, kj::str("uid ", uid, " may not write the audit log"));
    }
    keep(context.getParams().getRecord());
    return kj::READY_NOW;
  }
  kj::Promise<void> logFeed(LogFeedContext context) override {
    if (uid != kRootUid && uid != kLogdUid) {
      fail(ErrorKind::kPermissionDenied, kj::str("uid ", uid, " may not follow the logs"));
    }
    context.getResults().setFeed(feed);
    return kj::READY_NOW;
  }
  kj::Promise<void> joinTokens(JoinTokensContext context) override {
    if (uid != kRootUid && uid != kTrustdUid) {
      fail(ErrorKind::kPermissionDenied, kj::str("uid ", uid, " may not use join tokens"));
    }
    auto tokens = etcdSupervisor.joinTokensRequest().send().getTokens();
    context.getResults().setTokens(kj::mv(tokens));
    return kj::READY_NOW;
  }

 private:
  void checkCaller() const {
    if (mayHaveNode(uid)) return;
    fail(ErrorKind::kPermissionDenied, kj::str("uid ", uid, " may not use the API of the node"));
  }

  static rpc::Node::Client nodeFor(kj::StringPtr request, kj::Maybe<NodeOfRequest>& ofRequest,
                                   rpc::Node::Client& otherwise) {
    KJ_IF_MAYBE (make, ofRequest) {
      if (isRequestId(request)) return (*make)(request);
    }
    return otherwise;
  }

  unsigned uid;
  rpc::Node::Client nodeClient, maintenanceClient;
  rpc::Store::Client storeClient;
  kj::Function<void(rpc::AuditRecord::Reader)> keep;
  kj::Function<void(kj::StringPtr)> callsFor;
  rpc::LogFeed::Client feed;
  kj::Maybe<NodeOfRequest> ofRequest, maintenanceOfRequest;
  rpc::EtcdSupervisor::Client etcdSupervisor;
};

}  // namespace

capnp::Capability::Client countedDaemon(capnp::Capability::Client daemon,
                                        kj::Own<ClientCalls> calls) {
  return capnp::membrane(kj::mv(daemon), kj::refcounted<CountedCalls>(kj::mv(calls)));
}

rpc::Node::Client serveNode(NodeParts parts, kj::StringPtr request) {
  return kj::heap<NodeServer>(kj::mv(parts), request);
}

bool mayHaveNode(unsigned uid) {
  return uid == kRootUid || uid == kApidUid;
}

bool mayAudit(unsigned uid) {
  return uid == kApidUid;
}

rpc::Node::Client serveMaintenance(const Rules& rules, rpc::Node::Client node,
                                   kj::Function<bool()> open) {
  return attenuateToMaintenance(rules, kj::mv(node), kj::mv(open),
                                [](kj::StringPtr, kj::StringPtr) {})  // from apid
      .castAs<rpc::Node>();
}

rpc::Machined::Client serveMachined(const UnixPeer& peer, rpc::Node::Client node,
                                    rpc::Node::Client maintenanceNode, rpc::Store::Client store,
                                    kj::Function<void(rpc::AuditRecord::Reader)> audit,
                                    kj::Function<void(kj::StringPtr)> callsFor,
                                    rpc::LogFeed::Client logFeed,
                                    kj::Maybe<NodeOfRequest> ofRequest,
                                    kj::Maybe<NodeOfRequest> maintenanceOfRequest,
                                    rpc::EtcdSupervisor::Client etcdSupervisor) {
  return kj::heap<MachinedServer>(peer.uid, kj::mv(node), kj::mv(maintenanceNode), kj::mv(store),
                                  kj::mv(audit), kj::mv(callsFor), kj::mv(logFeed),
                                  kj::mv(ofRequest), kj::mv(maintenanceOfRequest),
                                  kj::mv(etcdSupervisor));
}

}  // namespace talos::machined
