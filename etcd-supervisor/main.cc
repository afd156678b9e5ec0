// etcd-supervisor: this node's membership in the cluster's etcd, and its backups. Wiring only; what
// it does is described in membership/membership-reconciler.h and backup/backup-loop.h.
//
// Its environment names the listening unix socket that its supervisor holds, machined's socket, and
// its own folder (common/base/node-layout.h). Runs as the user of etcd, whose data directory it
// reads; needs no capability and starts no program.
#include <random>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "etcd-supervisor/backup/backup-store-adapter.h"
#include "etcd-supervisor/backup/snapshot-spool.h"
#include "etcd-supervisor/control/etcd-data-files.h"
#include "etcd-supervisor/control/etcd-store-adapter.h"
#include "etcd-supervisor/control/node-peers.h"
#include "etcd-supervisor/control/supervisor-server.h"
#include "etcd-supervisor/membership/bootstrap-status.h"

namespace talos::supervisor {

constexpr kj::StringPtr kUsualState = "/var/lib/etcd-supervisor"_kj;

kj::Maybe<kj::Own<BackupLoop::Target>> targetOf(BackupStoreAdapter& store, etcd::Etcd& member,
                                                kube::DialDependencies dial, DiskQueue& queue,
                                                kj::StringPtr folder) {
  KJ_IF_MAYBE (settings, store.settings()) {
    S3Dependencies deps{dial, kj::systemPreciseCalendarClock(), queue};
    return kj::heap<BackupLoop::Target>(BackupLoop::Target{
        .schedule = kj::mv(settings->schedule),
        .store = s3Store(deps, kj::mv(settings->store)),
        .spool = [&member, &queue, folder, recipient = kj::mv(settings->recipient)]() {
          return spoolSnapshot(member, queue, folder, recipient);
        }});
  }
  return nullptr;
}

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  auto listening = inheritedSocket(kListenUnixVariable);
  std::mt19937 generator(std::random_device{}());
  std::uniform_real_distribution<double> unit(0, 1);

  TlsEndpoint member, api;
  auto folder = fromEnvironment(kStateVariable, kUsualState);
  DiskFiles files(kDataFolder, folder);
  DiskThread disk;
  KeptSnapshot kept(timer, disk, folder);
  StoreClient store(*io.lowLevelProvider, timer, machinedSocket(), kj::str("etcd-supervisor"));
  kj::Maybe<MembershipReconciler> reconciler;
  StoreAdapter adapter(store, member, api, [&] {
    KJ_IF_MAYBE (membership, reconciler) membership->wake();
  });
  NodePeers peers(io, api);
  EtcdClients endpoints(io, member);
  auto& membership = reconciler.emplace(Dependencies{.timer = timer,
                                                     .clock = kj::systemPreciseCalendarClock(),
                                                     .chance = [&] { return unit(generator); },
                                                     .files = files,
                                                     .store = adapter,
                                                     .peers = peers,
                                                     .endpoints = endpoints});
  BootstrapStatus bootstrapStatus(
      {.timer = timer,
       .runs = [&] { return adapter.running(); },
       .endpoints = endpoints,
       .publish = [&](bool selfHosted) { return adapter.publishSelfHosted(selfHosted); }});
  kj::Maybe<BackupLoop> backups;
  BackupStoreAdapter backupStore(store, [&] {
    KJ_IF_MAYBE (loop, backups) loop->configChanged();
  });
  kube::DialDependencies dial{*io.lowLevelProvider, io.unixEventPort, timer};
  auto& backup = backups.emplace(BackupLoop::Dependencies{
      .timer = timer,
      .clock = kj::systemPreciseCalendarClock(),
      .member = endpoints.at(kLocal),
      .runs = [&] { return adapter.running(); },
      .target = [&] { return targetOf(backupStore, endpoints.at(kLocal), dial, disk, folder); },
      .publish = [&](kj::Maybe<BackupState> state) { return backupStore.publish(kj::mv(state)); }});
  JoinTokenBook tokens({.timer = timer,
                        .clock = kj::systemPreciseCalendarClock(),
                        .member = [&]() -> etcd::Etcd& { return membership.localMember(); }});
  Rules rules(capnp::Schema::from<rpc::Etcd>());
  RequestTrace trace(timer, rules);
  auto serving = serveUnix(*io.lowLevelProvider, timer, kj::mv(listening), [&](const UnixPeer&) {
    return makeServer({timer, membership, files, kept, disk, tokens}, trace);
  });
  log::info("listening");
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  membership.run()
      .exclusiveJoin(bootstrapStatus.run())
      .exclusiveJoin(backup.run())
      .exclusiveJoin(kj::mv(serving))
      .wait(io.waitScope);
}

}  // namespace talos::supervisor

int main(int, char**) {
  talos::crash::reportCrashes("etcd-supervisor");
  auto failure = kj::runCatchingExceptions([] { talos::supervisor::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // it ends only by failing; its supervisor starts it again
}
