#include "machined/brain/node-serving.h"

#include <signal.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/base/node-messages.h"
#include "common/base/sha256.h"
#include "common/base/version.h"
#include "common/config/config.h"
#include "common/wire/rpc-server.h"
#include "machined/api/audit-line.h"
#include "machined/api/containers-server.h"
#include "machined/api/files-server.h"
#include "machined/api/kmsg.h"
#include "machined/boot/node-environment.h"
#include "machined/boot/tasks/network-complete.h"
#include "machined/brain/daemon-table.h"
#include "machined/config/configuration-server.h"
#include "machined/config/controllers/host-dns-controller.h"
#include "machined/config/controllers/kernel-settings-controller.h"
#include "machined/config/controllers/trusted-roots-controller.h"
#include "machined/config/trust/trust-config.h"
#include "machined/disk/volumes/volume-changes.h"
#include "machined/kubernetes/admin-kubeconfig.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/etcd-and-kubernetes-of-node.h"
#include "machined/kubernetes/kubernetes-secrets.h"
#include "machined/kubernetes/manifests/manifest-controller.h"
#include "machined/logs/console-log.h"
#include "machined/logs/events-and-logs-server.h"
#include "machined/logs/log-feed.h"
#include "machined/resources/controller-runtime.h"
#include "machined/resources/store-server.h"
#include "machined/services/services-server.h"

namespace talos::machined {
namespace {

// Connections of one user: apid has one for each client, and a few for itself.
constexpr unsigned kMostClients = 1536;

// The longest time between a call that shuts the machine down and its audit record.
constexpr auto kRequesterKnown = 5 * kj::SECONDS;
// etcd prints its usage, about 200 lines, after the error about an argument.
constexpr unsigned kLastLines = 400;

// apid's name for its own calls, for the scrapes of its metrics.
constexpr kj::StringPtr kMetrics = "metrics"_kj;

constexpr kj::StringPtr kWithoutLeaving =
    "or use talosctl reset --graceful=false, which erases the node without leaving etcd"_kj;

MachineIdentity identityOf(kj::StringPtr platform, Mode mode) {
  auto version = buildVersion();
  return {kj::str(version.tag),      kj::str(version.sha), kj::str(version.built),
          kj::str(version.compiler), kj::str(platform),    kj::str(nameOf(mode))};
}

}  // namespace

kj::Promise<void> NodeServing::serve(kj::AutoCloseFd listening) {
  return serveUnix(
      *core.io.lowLevelProvider, core.timer, kj::mv(listening),
      [this, admins = sharedParts(ConfigManager::Caller::kAdmin),
       visitors = sharedParts(ConfigManager::Caller::kVisitor),
       feed = logFeed()](const UnixPeer& peer) mutable {
        auto client = kj::refcounted<ClientCalls>(kj::addRef(*calls));
        auto parts = partsOf(admins, *client), open = partsOf(visitors, *client);
        auto node = serveNode(parts), maintenanceNode = maintenance(serveNode(open));
        return serveMachined(
            peer, kj::mv(node), kj::mv(maintenanceNode), serveStore(core.store, peer.uid),
            [this](rpc::AuditRecord::Reader record) { audit(record); },
            [this, client = kj::addRef(*client)](kj::StringPtr name) mutable {
              if (name.size() == 0) return;
              client->isFor(name);
              if (name != kMetrics) life.clientCalled();
            },
            feed, NodeOfRequest([this, parts = kj::mv(parts)](kj::StringPtr request) mutable {
              return trace.traced<rpc::Node>(serveNode(parts, request), request);
            }),
            NodeOfRequest([this, open = kj::mv(open)](kj::StringPtr request) mutable {
              return maintenance(trace.traced<rpc::Node>(serveNode(open, request), request));
            }),
            admins.etcdSupervisor);
      },
      {.connections = kMostClients + 256, .connectionsPerPeer = kMostClients});
}

rpc::Node::Client NodeServing::maintenance(rpc::Node::Client node) {
  return serveMaintenance(rules, kj::mv(node),
                          [this]() { return configs.manager.showsStateToAnybody(); });
}

// A container's kernel log belongs to its host, and must not be sent.
rpc::LogFeed::Client NodeServing::logFeed() {
  return serveLogFeed(
      core.logs, core.events, thisBootId(),
      [this](uint64_t from, rpc::LogSink::Client sink) -> kj::Promise<void> {
        if (core.container) return kj::NEVER_DONE;
        KmsgOptions options{
            .follow = true, .from = from, .boot = kernelEpoch(), .format = feedKmsg};
        return readKmsg(openKmsg(core.io.unixEventPort), options, kj::mv(sink));
      });
}

void NodeServing::audit(rpc::AuditRecord::Reader record) {
  auto now = core.clock.now();
  core.logs.append(kAuditLog, auditLine(record, now));
  auto call = record.getCall();
  for (auto begin : {"Machine.reboot"_kj, "Machine.shutdown"_kj, "Machine.reset"_kj,
                     "Configuration.apply"_kj, "Upgrades."_kj}) {
    if (!call.startsWith(begin)) continue;
    asked = Asked{kj::str(record.getClient(), " (", record.getAddress(), ")"), now};
  }
}

kj::String NodeServing::askedBy() const {
  KJ_IF_MAYBE (a, asked) {
    if (core.clock.now() - a->at < kRequesterKnown) return kj::str(" by ", a->who);
  }
  return kj::String();
}

NodeParts NodeServing::sharedParts(ConfigManager::Caller caller) {
  return {.machine = nullptr,
          .services = serveServices(services.supervisor, services.crashes),
          .events = nullptr,
          .logs = nullptr,
          .files = nullptr,
          .resources = nullptr,
          .sensitiveResources = nullptr,
          .networkd = networkd(),
          .configuration = configuration(caller),
          .storage = nullptr,
          .containers = nullptr,
          .upgrades = serveUpgrades(upgrades.upgrader, thisBootId()),
          .etcdSupervisor = etcdOfNode(kubernetes.etcdSupervisor(), core.configReader, core.store),
          .kubed = kubernetesOfNode(kubed(), core.configReader, core.store)};
}

NodeParts NodeServing::partsOf(NodeParts& shared, ClientCalls& client) {
  auto mine = [&]() { return kj::addRef(client); };
  auto kernelLog = [this](rpc::Logs::KernelParams::Reader params) -> kj::Promise<void> {
    if (core.container) return serveConsoleLog(core.logs, params);
    return serveKernelLog(core.io.unixEventPort, params);
  };
  NodeParts parts = shared;
  parts.machine = kj::heap<MachineServer>(disks.reads, core.timer,
                                          identityOf(core.platform, core.mode), *this, mine());
  parts.events = serveEvents(core.events, previousEvents(mine()), mine());
  parts.logs = serveLogs(core.logs, kj::mv(kernelLog), previousLog(mine()), mine());
  parts.files = kj::heap<FilesServer>(disks.reads, core.timer, mine());
  parts.storage = core.container ? serveNoStorage()
                                 : serveStorage(disks.reads, disks.meta,
                                                KJ_BIND_METHOD(configs.volumeKeys, newRecoveryKey),
                                                KJ_BIND_METHOD(disks, wipe), mine());
  parts.containers = serveContainers(services.containerd,
                                     {disks.reads, core.io.unixEventPort, core.timer,
                                      [&supervisor = services.supervisor](kj::StringPtr id) {
                                        return supervisor.signal(id, SIGTERM);
                                      }},
                                     mine());
  parts.resources = serveResources(core.store, false, mine());
  parts.sensitiveResources = serveResources(core.store, true, mine());
  parts.networkd = countedDaemon(kj::mv(parts.networkd), mine()).castAs<rpc::Networkd>();
  parts.kubed = countedDaemon(kj::mv(parts.kubed), mine()).castAs<rpc::Kubed>();
  auto etcd = countedDaemon(kj::mv(parts.etcdSupervisor), mine());
  parts.etcdSupervisor = etcdForClient(etcd.castAs<rpc::EtcdSupervisor>(),
                                       [mine = mine()] { return kj::str(mine->name()); });
  return parts;
}

PreviousLog NodeServing::previousLog(kj::Own<ClientCalls> calls) {
  return [this, calls = kj::mv(calls)](rpc::Logs::PreviousParams::Reader params) {
    return disks.recorder.readLog(disks.reads.of(calls->number()), kj::str(params.getId()),
                                  kj::str(params.getBoot()), params.getTailLines(),
                                  params.getSink(), kj::str(params.getContains()));
  };
}

PreviousEvents NodeServing::previousEvents(kj::Own<ClientCalls> calls) {
  return [this, calls = kj::mv(calls)](rpc::Events::PreviousParams::Reader params) {
    return disks.recorder.readEvents(disks.reads.of(calls->number()), kj::str(params.getBoot()),
                                     params.getSink());
  };
}

rpc::Networkd::Client NodeServing::networkd() {
  return reconnecting(*core.io.lowLevelProvider, core.timer, kj::str(kNetworkdSocket))
      .castAs<rpc::Networkd>();
}

rpc::Kubed::Client NodeServing::kubed() {
  return reconnecting(*core.io.lowLevelProvider, core.timer, kj::str(kKubedSocket))
      .castAs<rpc::Kubed>();
}

rpc::Configuration::Client NodeServing::configuration(ConfigManager::Caller caller) {
  return kj::heap<ConfigurationServer>(
      configs.manager, core.configReader, core.store, core.foreign, caller, thisBootId(),
      [this](const KnownConfig& wanted) {
        auto addresses = hostDnsOf(wanted.get()).serviceAddresses;
        return previewNetwork({core.arguments, wanted.get().getMachine(), core.store, addresses},
                              networkd(), core.timer);
      },
      ConfigurationServer::Effects{
          KJ_BIND_METHOD(effects, missing),
          [this](kj::ArrayPtr<const config::Change> changes, const KnownConfig& wanted) {
            return effects.foreseen(changes, wanted.get().getMachine());
          },
          [this](const KnownConfig& wanted) -> kj::Promise<kj::Vector<kj::String>> {
            if (core.container) return kj::Vector<kj::String>();
            return disks.dataVolumes.plan(wanted.get().getMachine());
          }},
      [](const KnownConfig& wanted) {
        kj::Vector<ConfigurationServer::Manifest> all;
        for (auto& one : manifestsOf(wanted.get())) {
          all.add(ConfigurationServer::Manifest{kj::mv(one.id), kj::mv(one.objects)});
        }
        return all;
      },
      [](const KnownConfig& config) {
        kj::Vector<ConfigurationServer::Part> all;
        for (auto& one : controlPlaneParts(config.get())) {
          all.add(ConfigurationServer::Part{kj::mv(one.name), kj::mv(one.content)});
        }
        return all;
      });
}

ConfigEffects::Dependencies NodeServing::effectsDependencies() {
  return {
      .timer = core.timer,
      .store = core.store,
      .controllers = core.controllers,
      .kernel = [this]() { return applyKernelSettings(configs.controllerDeps, core.store); },
      .trustedRoots = [this]() { return applyTrustedRoots(configs.controllerDeps, core.store); },
      .networkProblems =
          [this]() {
            return core.configReader.tryMachine(core.store)
                .map([this](config::Machine::Reader machine) {
                  return networkConfigProblems(core.arguments, machine, core.store);
                })
                .orDefault([]() { return kj::Vector<kj::String>(); });
          },
      .volumes = [this]() { return makeVolumes(); },
      .volumeProblems = [this]() { return volumeProblems(); },
      .impossibleVolumes =
          [this](config::Machine::Reader wanted) {
            if (!core.container) return kj::Vector<kj::String>();
            return volumesOfContainer(wanted);
          },
      .etcd =
          [this](kj::Duration timeout) {
            return kubernetes.etcd.notInEffect(timeout, [this]() { return errorInLogOfEtcd(); });
          },
      .imageActs = [this](bool applied) { return upgrades.installImage.acts(applied); }};
}

kj::Vector<kj::String> NodeServing::volumeProblems() {
  KJ_IF_MAYBE (config, core.configReader.tryConfig(core.store)) {
    auto texts = volumesNotInEffect(core.store, *config, core.container);
    for (auto& text : disks.dataVolumes.different()) texts.add(kj::str(text));
    return texts;
  }
  return {};
}

kj::Promise<kj::Array<kj::String>> NodeServing::makeVolumes() {
  KJ_IF_MAYBE (machine, core.configReader.tryMachine(core.store)) {
    if (!core.container) co_await disks.dataVolumes.reconcile(*machine);
  }
  co_return volumeProblems().releaseAsArray();
}

kj::String NodeServing::errorInLogOfEtcd() {
  core.logs.readWaiting(kEtcdService);
  KJ_IF_MAYBE (ring, core.logs.ring(kEtcdService)) {
    auto from = ring->tail(kLastLines), newest = ring->newest();
    auto bytes = kj::heapArray<char>(newest - from);
    ring->copy(from, bytes);
    return errorOfEtcd(bytes);
  }
  return kj::String();
}

void NodeServing::fillStatus(rpc::Status::Builder out) {
  // Before the machine runs, and while it shuts down, services are not up.
  bool running = core.status.stage() == MachineStatus::Stage::RUNNING;
  auto problems = running ? services.supervisor.problems() : kj::Vector<kj::String>();
  if (running) {
    for (auto& problem : networkProblems(core.store)) {
      problems.add(kj::str(messages::kNetworkProblem, problem));
    }
    for (auto& problem : effects.leftOut()) {
      problems.add(kj::str(messages::kNotInEffect, problem));
    }
    KJ_IF_MAYBE (problem, kubernetes.kubelet.problem()) problems.add(kj::mv(*problem));
  }
  for (auto& problem : configs.fileProblems.list()) {
    problems.add(kj::str(messages::kNotInEffect, problem));
  }
  core.status.fill(out, problems);
  out.setSequence(life.sequencer.currentSequence());
  out.setPhase(life.sequencer.currentPhase());
  out.setBrainRestarts(core.process1.brainRestarts());
  out.setHangingReads(disks.reads.hanging());
  KJ_IF_MAYBE (config, core.configReader.document(core.store)) {
    Sha256 hash;
    hash.add(config->bytes().asBytes());
    out.setConfigSha256(hash.hex());
  }
  KJ_IF_MAYBE (left, configs.manager.revertsIn()) {
    out.setRevertsInMs(kj::max(*left / kj::MILLISECONDS, 1));
  }
  configs.manager.changeTrial().fill(out.initConfigTrial());
}

kj::Vector<ServiceCgroup> NodeServing::runningServices() {
  kj::Vector<ServiceCgroup> result;
  for (auto& id : services.supervisor.ids()) {
    capnp::MallocMessageBuilder scratch;
    auto service = scratch.initRoot<rpc::Service>();
    services.supervisor.fill(id, service);
    if (service.getPid() == 0) continue;
    auto cgroup = serviceCgroup(id);
    result.add(ServiceCgroup{kj::str(id), kj::mv(cgroup)});
  }
  return result;
}

kj::Vector<ControllerLinks> NodeServing::dependencies() {
  auto all = core.controllers.links();
  for (auto& links : Access::linksOfDaemons(Registry())) all.add(kj::mv(links));
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return all;
}

kj::Promise<TimeAnswer> NodeServing::queryTime(kj::String server) {
  auto answer = co_await services.time.check(kj::mv(server));
  co_return TimeAnswer{kj::mv(answer.server), answer.local, answer.remote};
}

kj::Promise<ResetFacts> NodeServing::previewReset(kj::Vector<kj::String> labels, bool graceful) {
  auto plan = co_await disks.reset->plan(kj::mv(labels));
  ResetFacts facts{kj::mv(plan.disk), {}};
  auto outlook = graceful
                     ? kubernetes.departure.require(rpc::DepartureKind::LEAVES,
                                                    ErrorKind::kFailedPrecondition, kWithoutLeaving)
                     : kubernetes.departure.outlook(rpc::DepartureKind::LEAVES);
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
  // Called before the reset is promised: a node that cannot leave etcd stays unchanged.
  auto leave = [&drain = kubernetes.nodeDrain, &departure = kubernetes.departure,
                graceful]() -> kj::Promise<void> {
    if (!graceful) return kj::READY_NOW;
    return drain.drain().then([&departure]() {
      return departure.leave(rpc::DepartureKind::LEAVES, false, ErrorKind::kFailedPrecondition,
                             kWithoutLeaving);
    });
  };
  return disks.reset->accept(
      {kj::mv(labels), reboot, graceful}, kj::mv(leave),
      [this]() { return life.life.acceptReset(); }, [this]() { kubernetes.nodeDrain.uncordon(); });
}

kj::Maybe<pki::CertificateAndKey> NodeServing::authority() {
  KJ_IF_MAYBE (machine, core.configReader.tryMachine(core.store)) {
    auto ca = machine->getCa();
    if (!hasKey(ca)) return nullptr;
    return pki::CertificateAndKey{kj::str(ca.getCrt().asChars()),
                                  pki::Pem(kj::str(ca.getKey().asChars()))};
  }
  return nullptr;
}

kj::Promise<pki::Pem> NodeServing::kubeconfig() {
  KJ_IF_MAYBE (config, core.configReader.tryConfig(core.store)) {
    KJ_IF_MAYBE (root, core.store.tryGet<rpc::RootSecretSpec>(kKubernetesRootId)) {
      auto wanted = adminKubeconfigOf(root->getK8s(),
                                      config->getCluster().getAdminKubeconfig().getCertLifetime());
      co_return co_await core.uv.blocking([wanted = kj::mv(wanted), now = core.clock.now()] {
        return writeAdminKubeconfig(wanted, now);
      });
    }
  }
  fail(ErrorKind::kFailedPrecondition,
       "this node does not have the key of cluster.ca: it is a worker, or has no config; name a "
       "control-plane node with -n");
}

}  // namespace talos::machined
