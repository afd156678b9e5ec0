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

// Between a call that takes the machine down and its record for the audit log.
constexpr auto kAskedJustNow = 5 * kj::SECONDS;

MachineIdentity identityOf(kj::StringPtr platform, Mode mode) {
  auto version = buildVersion();
  return {kj::str(version.tag),      kj::str(version.sha), kj::str(version.built),
          kj::str(version.compiler), kj::str(platform),    kj::str(nameOf(mode))};
}

}  // namespace

NodeServing::NodeServing(World w)
    : world(kj::mv(w)),
      timer(world.io.provider->getTimer()),
      pool(world.io.unixEventPort, timer, {}, [this](kj::StringPtr line) { world.alarm(line); }) {}

kj::Promise<void> NodeServing::serve(kj::AutoCloseFd listening) {
  return serveUnix(
      *world.io.lowLevelProvider, timer, kj::mv(listening),
      [this, admins = sharedParts(ConfigKeeper::Caller::kAdmin),
       visitors = sharedParts(ConfigKeeper::Caller::kVisitor)](const UnixPeer& peer) mutable {
        auto client = kj::refcounted<ClientCalls>(kj::addRef(*calls));
        return serveMachined(peer, nodeOf(admins, *client),
                             serveMaintenance(rules, nodeOf(visitors, *client),
                                              [this]() { return world.config.tellsAnybody(); }),
                             serveStore(world.store, peer.uid),
                             [this](rpc::AuditRecord::Reader record) { audit(record); });
      },
      {.connections = kMostClients + 256, .connectionsPerPeer = kMostClients});
}

void NodeServing::audit(rpc::AuditRecord::Reader record) {
  auto now = world.clock.now();
  world.logs.append(kAuditLog, auditLine(record, now));
  auto call = record.getCall();
  for (auto begin : {"Machine.reboot"_kj, "Machine.shutdown"_kj, "Configuration.apply"_kj}) {
    if (!call.startsWith(begin)) continue;
    asked = Asked{kj::str(record.getClient(), " (", record.getAddress(), ")"), now};
  }
}

kj::String NodeServing::askedBy() const {
  KJ_IF_MAYBE (a, asked) {
    if (world.clock.now() - a->at < kAskedJustNow) return kj::str(" by ", a->who);
  }
  return kj::String();
}

NodeParts NodeServing::sharedParts(ConfigKeeper::Caller caller) {
  return {.machine = nullptr,
          .services = serveServices(world.supervisor),
          .events = nullptr,
          .logs = nullptr,
          .files = nullptr,
          .resources = nullptr,
          .sensitiveResources = nullptr,
          .networkd = networkd(),
          .configuration = configuration(caller),
          .storage = serveStorage(world.uv)};
}

rpc::Node::Client NodeServing::nodeOf(NodeParts& shared, ClientCalls& client) {
  auto mine = [&]() { return kj::addRef(client); };
  auto kernelLog = [this](rpc::Logs::KernelParams::Reader params) {
    return serveKernelLog(world.io.unixEventPort, params);
  };
  NodeParts parts = shared;
  parts.machine =
      kj::heap<MachineServer>(pool, timer, identityOf(world.platform, world.mode), hooks(), mine());
  parts.events = serveEvents(world.events, previousEvents(), mine());
  parts.logs = serveLogs(world.logs, kj::mv(kernelLog), previousLog(), mine());
  parts.files = kj::heap<FilesServer>(pool, timer, mine());
  parts.resources = serveResources(world.store, false, mine());
  parts.sensitiveResources = serveResources(world.store, true, mine());
  return serveNode(kj::mv(parts));
}

PreviousLog NodeServing::previousLog() {
  return [this](rpc::Logs::PreviousParams::Reader params) {
    return world.recorder.readLog(kj::str(params.getId()), kj::str(params.getBoot()),
                                  params.getTailLines(), params.getSink());
  };
}

PreviousEvents NodeServing::previousEvents() {
  return [this](rpc::Events::PreviousParams::Reader params) {
    return world.recorder.readEvents(kj::str(params.getBoot()), params.getSink());
  };
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
  out.setHangingReads(pool.hanging());
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
