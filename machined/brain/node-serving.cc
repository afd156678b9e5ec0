#include "machined/brain/node-serving.h"

#include "common/base/node-layout.h"
#include "common/base/version.h"
#include "common/wire/rpc-server.h"
#include "machined/api/audit-line.h"
#include "machined/api/files-server.h"
#include "machined/api/kmsg.h"
#include "machined/brain/daemon-table.h"
#include "machined/brain/network-preview.h"
#include "machined/brain/surroundings.h"
#include "machined/config/configuration-server.h"
#include "machined/resources/store-server.h"
#include "machined/services/services-server.h"
#include "machined/storage/disks.h"
#include "machined/telemetry/telemetry-server.h"

namespace talos::machined {
namespace {

// Of one user: apid has a connection for each of its clients, and a few of its own.
constexpr unsigned kMostClients = 1536;

MachineIdentity identityOf(kj::StringPtr platform, Mode mode) {
  auto version = buildVersion();
  return {kj::str(version.tag),      kj::str(version.sha), kj::str(version.built),
          kj::str(version.compiler), kj::str(platform),    kj::str(nameOf(mode))};
}

}  // namespace

NodeServing::NodeServing(World w) : world(kj::mv(w)), timer(world.io.provider->getTimer()) {}

kj::Promise<void> NodeServing::serve(kj::AutoCloseFd listening) {
  auto node = serveNode(parts(ConfigKeeper::Caller::kAdmin));
  auto visitors = serveMaintenance(rules, serveNode(parts(ConfigKeeper::Caller::kVisitor)),
                                   [this]() { return world.config.inMaintenance(); });
  return serveUnix(
      *world.io.lowLevelProvider, timer, kj::mv(listening),
      [this, node = kj::mv(node), visitors = kj::mv(visitors)](const UnixPeer& peer) mutable {
        return serveMachined(peer, node, visitors, serveStore(world.store, peer.uid),
                             [this](rpc::AuditRecord::Reader record) {
                               world.logs.append(kAuditLog, auditLine(record, world.clock.now()));
                             });
      },
      {.connections = kMostClients + 256, .connectionsPerPeer = kMostClients});
}

NodeParts NodeServing::parts(ConfigKeeper::Caller caller) {
  auto kernelLog = [this](rpc::Logs::KernelParams::Reader params) {
    return serveKernelLog(world.io.unixEventPort, params);
  };
  return {.machine = kj::heap<MachineServer>(world.uv, timer,
                                             identityOf(world.platform, world.mode), hooks()),
          .services = serveServices(world.supervisor),
          .events = serveEvents(world.events),
          .logs = serveLogs(world.logs, kj::mv(kernelLog)),
          .files = kj::heap<FilesServer>(world.uv),
          .resources = serveResources(world.store, false),
          .sensitiveResources = serveResources(world.store, true),
          .networkd = networkd(),
          .configuration = configuration(caller),
          .storage = serveStorage(world.uv)};
}

rpc::Networkd::Client NodeServing::networkd() {
  return reconnecting(*world.io.lowLevelProvider, timer, kj::str(kNetworkdSocket))
      .castAs<rpc::Networkd>();
}

rpc::Configuration::Client NodeServing::configuration(ConfigKeeper::Caller caller) {
  return kj::heap<ConfigurationServer>(
      world.config, world.reader, world.store, world.foreign, caller, thisBootId(),
      [this](const KnownConfig& wanted) {
        return previewNetwork({world.arguments, viewOf(wanted.get()).network, world.store},
                              networkd(), timer);
      });
}

MachineHooks NodeServing::hooks() {
  MachineHooks hooks;
  hooks.reboot = KJ_BIND_METHOD(world.life, acceptReboot);
  hooks.shutdown = KJ_BIND_METHOD(world.life, acceptShutdown);
  hooks.status = KJ_BIND_METHOD(*this, fillStatus);
  hooks.services = KJ_BIND_METHOD(*this, cgroups);
  hooks.time = KJ_BIND_METHOD(*this, askTime);
  hooks.authority = KJ_BIND_METHOD(*this, authority);
  return hooks;
}

void NodeServing::fillStatus(rpc::Status::Builder out) {
  world.status.fill(out);
  out.setSequence(world.sequencer.currentSequence());
  out.setPhase(world.sequencer.currentPhase());
  out.setBrainRestarts(world.process1.brainRestarts());
  KJ_IF_MAYBE (left, world.config.revertsIn()) {
    out.setRevertsInMs(kj::max(*left / kj::MILLISECONDS, 1));
  }
}

kj::Vector<ServiceCgroup> NodeServing::cgroups() {
  kj::Vector<ServiceCgroup> result;
  for (auto& id : world.supervisor.ids()) {
    capnp::MallocMessageBuilder scratch;
    auto service = scratch.initRoot<rpc::Service>();
    world.supervisor.fill(id, service);
    if (service.getPid() == 0) continue;
    auto cgroup = serviceCgroup(id);
    result.add(ServiceCgroup{kj::str(id), kj::mv(cgroup)});
  }
  return result;
}

kj::Promise<TimeAnswer> NodeServing::askTime(kj::String server) {
  auto answer = co_await world.time.check(kj::mv(server));
  co_return TimeAnswer{kj::mv(answer.server), answer.local, answer.remote};
}

kj::Maybe<pki::CertificateAndKey> NodeServing::authority() {
  KJ_IF_MAYBE (config, world.reader.view(world.store)) {
    if (config->authority.size() == 0 || config->authorityKey.bytes().size() == 0) return nullptr;
    return pki::CertificateAndKey{kj::mv(config->authority), kj::mv(config->authorityKey)};
  }
  return nullptr;
}

}  // namespace talos::machined
