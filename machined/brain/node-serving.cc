#include "machined/brain/node-serving.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/base/version.h"
#include "common/wire/rpc-server.h"
#include "machined/api/audit-line.h"
#include "machined/api/containers-server.h"
#include "machined/api/files-server.h"
#include "machined/api/kmsg.h"
#include "machined/brain/daemon-table.h"
#include "machined/brain/node-environment.h"
#include "machined/config/configuration-server.h"
#include "machined/config/network-preview.h"
#include "machined/kubernetes/admin-kubeconfig.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/kubernetes/kubernetes-secrets.h"
#include "machined/logs/events-and-logs-server.h"
#include "machined/resources/controller-runtime.h"
#include "machined/resources/store-server.h"
#include "machined/services/services-server.h"

namespace talos::machined {
namespace {

// Of one user: apid has a connection for each of its clients, and a few of its own.
constexpr unsigned kMostClients = 1536;

// Between a call that takes the machine down and its record for the audit log.
constexpr auto kAskedJustNow = 5 * kj::SECONDS;

constexpr kj::StringPtr kWithoutLeaving =
    "or use talosctl reset --graceful=false, which erases the node without leaving etcd"_kj;

MachineIdentity identityOf(kj::StringPtr platform, Mode mode) {
  auto version = buildVersion();
  return {kj::str(version.tag),      kj::str(version.sha), kj::str(version.built),
          kj::str(version.compiler), kj::str(platform),    kj::str(nameOf(mode))};
}

// etcd of a worker: it has none, which it says to those who are about to make a cluster.
class NoEtcd final : public rpc::Etcd::Server {
 public:
  explicit NoEtcd(Store& store) : store(store) {}

  DispatchCallResult dispatchCall(
      uint64_t interfaceId, uint16_t methodId,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    auto standing = capnp::Schema::from<rpc::Etcd>().getMethodByName("bootstrapState").getIndex();
    if (methodId != standing) {
      fail(ErrorKind::kFailedPrecondition,
           "this node is a worker and has no etcd; name a control-plane node with -n");
    }
    return rpc::Etcd::Server::dispatchCall(interfaceId, methodId, kj::mv(context));
  }

  kj::Promise<void> bootstrapState(BootstrapStateContext context) override {
    auto out = context.getResults().initState();
    for (auto spec : store.list<rpc::HostnameSpecSpec>()) out.setName(spec.getHostname());
    out.setState(rpc::Etcd::BootstrapState::State::NONE);
    return kj::READY_NOW;
  }

 private:
  Store& store;
};

// On a worker there is no etcd-supervisor that could say so itself.
class EtcdDoor final : public rpc::EtcdSupervisor::Server {
 public:
  EtcdDoor(rpc::EtcdSupervisor::Client supervisor, MachineConfigReader& config, Store& store)
      : supervisor(kj::mv(supervisor)), config(config), store(store) {}

  kj::Promise<void> etcd(EtcdContext context) override {
    KJ_IF_MAYBE (view, config.view(store)) {
      if (view->type == rpc::MachineType::JOIN) {
        context.getResults().setEtcd(kj::heap<NoEtcd>(store));
        return kj::READY_NOW;
      }
      if (!runsEtcd(*view)) {
        fail(ErrorKind::kFailedPrecondition,
             "there is no etcd without cluster.etcd.ca in the machine config");
      }
    }
    context.getResults().setEtcd(supervisor.etcdRequest().send().getEtcd());
    return kj::READY_NOW;
  }

 private:
  rpc::EtcdSupervisor::Client supervisor;
  MachineConfigReader& config;
  Store& store;
};

// kubed of a worker has nobody to ask, and serves nobody.
class KubernetesDoor final : public rpc::Kubernetes::Server {
 public:
  KubernetesDoor(rpc::Kubernetes::Client kubed, MachineConfigReader& config, Store& store)
      : kubed(kj::mv(kubed)), config(config), store(store) {}

  kj::Promise<void> survey(SurveyContext context) override {
    KJ_IF_MAYBE (view, config.view(store)) {
      if (view->type == rpc::MachineType::JOIN) {
        fail(ErrorKind::kFailedPrecondition,
             "this node is a worker and has no API server of Kubernetes; name a control-plane node "
             "with -n");
      }
    }
    return context.tailCall(kubed.surveyRequest());
  }

 private:
  rpc::Kubernetes::Client kubed;
  MachineConfigReader& config;
  Store& store;
};

}  // namespace

NodeServing::NodeServing(Dependencies d)
    : deps(kj::mv(d)), timer(deps.io.provider->getTimer()), pool(deps.pool) {}

kj::Promise<void> NodeServing::serve(kj::AutoCloseFd listening) {
  return serveUnix(
      *deps.io.lowLevelProvider, timer, kj::mv(listening),
      [this, admins = sharedParts(ConfigKeeper::Caller::kAdmin),
       visitors = sharedParts(ConfigKeeper::Caller::kVisitor)](const UnixPeer& peer) mutable {
        auto client = kj::refcounted<ClientCalls>(kj::addRef(*calls));
        return serveMachined(
            peer, nodeOf(admins, *client),
            serveMaintenance(rules, nodeOf(visitors, *client),
                             [this]() { return deps.config.tellsAnybody(); }),
            serveStore(deps.store, peer.uid),
            [this](rpc::AuditRecord::Reader record) { audit(record); },
            [client = kj::addRef(*client)](kj::StringPtr name) mutable {
              if (name.size() > 0) client->isFor(name);
            });
      },
      {.connections = kMostClients + 256, .connectionsPerPeer = kMostClients});
}

void NodeServing::audit(rpc::AuditRecord::Reader record) {
  auto now = deps.clock.now();
  deps.logs.append(kAuditLog, auditLine(record, now));
  auto call = record.getCall();
  for (auto begin : {"Machine.reboot"_kj, "Machine.shutdown"_kj, "Machine.reset"_kj,
                     "Configuration.apply"_kj, "Upgrades."_kj}) {
    if (!call.startsWith(begin)) continue;
    asked = Asked{kj::str(record.getClient(), " (", record.getAddress(), ")"), now};
  }
}

kj::String NodeServing::askedBy() const {
  KJ_IF_MAYBE (a, asked) {
    if (deps.clock.now() - a->at < kAskedJustNow) return kj::str(" by ", a->who);
  }
  return kj::String();
}

NodeParts NodeServing::sharedParts(ConfigKeeper::Caller caller) {
  return {.machine = nullptr,
          .services = serveServices(deps.supervisor),
          .events = nullptr,
          .logs = nullptr,
          .files = nullptr,
          .resources = nullptr,
          .sensitiveResources = nullptr,
          .networkd = networkd(),
          .configuration = configuration(caller),
          .storage = nullptr,
          .containers = nullptr,
          .upgrades = serveUpgrades(deps.upgrader, thisBootId()),
          .etcdSupervisor = kj::heap<EtcdDoor>(etcdSupervisor(), deps.reader, deps.store),
          .kubernetes = kj::heap<KubernetesDoor>(kubernetes(), deps.reader, deps.store)};
}

rpc::Node::Client NodeServing::nodeOf(NodeParts& shared, ClientCalls& client) {
  auto mine = [&]() { return kj::addRef(client); };
  auto kernelLog = [this](rpc::Logs::KernelParams::Reader params) -> kj::Promise<void> {
    if (inContainer()) {
      fail(ErrorKind::kFailedPrecondition,
           "a node in a container has no kernel log of its own; talosctl logs machined shows what "
           "the node itself says");
    }
    return serveKernelLog(deps.io.unixEventPort, params);
  };
  NodeParts parts = shared;
  parts.machine =
      kj::heap<MachineServer>(pool, timer, identityOf(deps.platform, deps.mode), *this, mine());
  parts.events = serveEvents(deps.events, previousEvents(mine()), mine());
  parts.logs = serveLogs(deps.logs, kj::mv(kernelLog), previousLog(mine()), mine());
  parts.files = kj::heap<FilesServer>(pool, timer, mine());
  parts.storage =
      inContainer() ? serveNoStorage() : serveStorage(pool, deps.meta, deps.newRecoveryKey, mine());
  parts.containers = serveContainers(deps.containerd, {pool, deps.io.unixEventPort, timer}, mine());
  parts.resources = serveResources(deps.store, false, mine());
  parts.sensitiveResources = serveResources(deps.store, true, mine());
  return serveNode(kj::mv(parts));
}

PreviousLog NodeServing::previousLog(kj::Own<ClientCalls> calls) {
  return [this, calls = kj::mv(calls)](rpc::Logs::PreviousParams::Reader params) {
    return deps.recorder.readLog(pool.of(calls->number()), kj::str(params.getId()),
                                 kj::str(params.getBoot()), params.getTailLines(),
                                 params.getSink());
  };
}

PreviousEvents NodeServing::previousEvents(kj::Own<ClientCalls> calls) {
  return [this, calls = kj::mv(calls)](rpc::Events::PreviousParams::Reader params) {
    return deps.recorder.readEvents(pool.of(calls->number()), kj::str(params.getBoot()),
                                    params.getSink());
  };
}

rpc::Networkd::Client NodeServing::networkd() {
  return reconnecting(*deps.io.lowLevelProvider, timer, kj::str(kNetworkdSocket))
      .castAs<rpc::Networkd>();
}

rpc::EtcdSupervisor::Client NodeServing::etcdSupervisor() {
  return reconnecting(*deps.io.lowLevelProvider, timer, kj::str(kEtcdSupervisorSocket))
      .castAs<rpc::EtcdSupervisor>();
}

rpc::Kubernetes::Client NodeServing::kubernetes() {
  return reconnecting(*deps.io.lowLevelProvider, timer, kj::str(kKubedSocket))
      .castAs<rpc::Kubernetes>();
}

rpc::Configuration::Client NodeServing::configuration(ConfigKeeper::Caller caller) {
  return kj::heap<ConfigurationServer>(
      deps.config, deps.reader, deps.store, deps.foreign, caller, thisBootId(),
      [this](const KnownConfig& wanted) {
        return previewNetwork({deps.arguments, viewOf(wanted.get()).network, deps.store},
                              networkd(), timer);
      });
}

void NodeServing::fillStatus(rpc::Status::Builder out) {
  deps.status.fill(out);
  out.setSequence(deps.sequencer.currentSequence());
  out.setPhase(deps.sequencer.currentPhase());
  out.setBrainRestarts(deps.process1.brainRestarts());
  out.setHangingReads(pool.hanging());
  KJ_IF_MAYBE (left, deps.config.revertsIn()) {
    out.setRevertsInMs(kj::max(*left / kj::MILLISECONDS, 1));
  }
}

kj::Vector<ServiceCgroup> NodeServing::runningServices() {
  kj::Vector<ServiceCgroup> result;
  for (auto& id : deps.supervisor.ids()) {
    capnp::MallocMessageBuilder scratch;
    auto service = scratch.initRoot<rpc::Service>();
    deps.supervisor.fill(id, service);
    if (service.getPid() == 0) continue;
    auto cgroup = serviceCgroup(id);
    result.add(ServiceCgroup{kj::str(id), kj::mv(cgroup)});
  }
  return result;
}

kj::Vector<ControllerLinks> NodeServing::dependencies() {
  auto all = deps.controllers.links();
  for (auto& links : Access::linksOfDaemons(Registry())) all.add(kj::mv(links));
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return all;
}

kj::Promise<TimeAnswer> NodeServing::askTime(kj::String server) {
  auto answer = co_await deps.time.check(kj::mv(server));
  co_return TimeAnswer{kj::mv(answer.server), answer.local, answer.remote};
}

kj::Promise<ResetFacts> NodeServing::previewReset(kj::Vector<kj::String> labels, bool graceful) {
  auto plan = co_await deps.reset.plan(kj::mv(labels));
  ResetFacts facts{kj::mv(plan.disk), {}};
  auto outlook = graceful ? deps.departure.require(rpc::DepartureKind::LEAVES,
                                                   ErrorKind::kFailedPrecondition, kWithoutLeaving)
                          : deps.departure.outlook(rpc::DepartureKind::LEAVES);
  co_await outlook.then(
      [&](kj::Maybe<EtcdDeparture::Outlook>&& found) { facts.etcd = kj::mv(found); },
      [&](kj::Exception&& e) {
        if (graceful) kj::throwFatalException(kj::mv(e));
        facts.etcdProblem = messageOf(e);
      });
  for (auto& target : plan.targets) {
    facts.targets.add(ResetFact{kj::mv(target.label), kj::mv(target.device), target.bytes});
  }
  co_return kj::mv(facts);
}

kj::Promise<void> NodeServing::reset(kj::Vector<kj::String> labels, bool graceful, bool reboot) {
  // Before it is promised: a node that cannot leave stays as it is.
  auto leave = [&drain = deps.drain, &departure = deps.departure, graceful]() -> kj::Promise<void> {
    if (!graceful) return kj::READY_NOW;
    return drain.drain().then([&departure]() {
      return departure.leave(rpc::DepartureKind::LEAVES, false, ErrorKind::kFailedPrecondition,
                             kWithoutLeaving);
    });
  };
  return deps.reset.accept(
      {kj::mv(labels), reboot, graceful}, kj::mv(leave),
      [&life = deps.life]() { return life.acceptReset(); },
      [&drain = deps.drain]() { drain.uncordon(); });
}

kj::Maybe<pki::CertificateAndKey> NodeServing::authority() {
  KJ_IF_MAYBE (config, deps.reader.view(deps.store)) {
    if (config->authority.size() == 0 || config->authorityKey.bytes().size() == 0) return nullptr;
    return pki::CertificateAndKey{kj::mv(config->authority), kj::mv(config->authorityKey)};
  }
  return nullptr;
}

kj::Promise<pki::Pem> NodeServing::kubeconfig() {
  KJ_IF_MAYBE (config, deps.reader.tryConfig(deps.store)) {
    KJ_IF_MAYBE (root, deps.store.tryGet<rpc::RootSecretSpec>(kKubernetesRootId)) {
      auto wanted = adminKubeconfigOf(root->getK8s(),
                                      config->getCluster().getAdminKubeconfig().getCertLifetime());
      co_return co_await deps.uv.blocking([wanted = kj::mv(wanted), now = deps.clock.now()] {
        return writeAdminKubeconfig(wanted, now);
      });
    }
  }
  fail(ErrorKind::kFailedPrecondition,
       "this node does not have the key of cluster.ca: it is a worker, or has no config; name a "
       "control-plane node with -n");
}

}  // namespace talos::machined
