// etcd-supervisor: this node's membership in the cluster's etcd, and its backups. Wiring only;
// membership/membership-reconciler.h and backup/backup-loop.h describe its work.
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
#include "etcd-supervisor/backup/backupd-store.h"
#include "etcd-supervisor/backup/snapshot-spool.h"
#include "etcd-supervisor/control/etcd-data-files.h"
#include "etcd-supervisor/control/etcd-store-adapter.h"
#include "etcd-supervisor/control/member-proxy.h"
#include "etcd-supervisor/control/node-peers.h"
#include "etcd-supervisor/control/supervisor-server.h"
#include "etcd-supervisor/membership/bootstrap-status.h"

namespace talos::supervisor {

constexpr kj::StringPtr kUsualState = "/var/lib/etcd-supervisor"_kj;

// The loop of backups with its dependencies.
class Backups {
 public:
  Backups(kj::AsyncIoContext& io, DiskQueue& queue, kj::StringPtr folder, StoreClient& client,
          StoreAdapter& adapter, etcd::Etcd& member)
      : io(io),
        queue(queue),
        folder(folder),
        adapter(adapter),
        member(member),
        store(client, [this] { loop.configChanged(); }),
        loop({.timer = io.provider->getTimer(),
              .clock = kj::systemPreciseCalendarClock(),
              .member = member,
              .runs = [&adapter] { return adapter.running(); },
              .target = [this] { return target(); },
              .publish =
                  [this](kj::Maybe<BackupState> state) { return store.publish(kj::mv(state)); }}) {}
  KJ_DISALLOW_COPY_AND_MOVE(Backups);

  kj::Promise<void> run() { return loop.run(); }

 private:
  kj::AsyncIoContext& io;
  DiskQueue& queue;
  kj::StringPtr folder;
  StoreAdapter& adapter;
  etcd::Etcd& member;
  BackupStoreAdapter store;
  rpc::Backupd::Client backupd =
      reconnecting(*io.lowLevelProvider, io.provider->getTimer(), kj::str(kBackupdSocket))
          .castAs<rpc::Backupd>();
  BackupLoop loop;

  kj::Maybe<kj::Own<BackupLoop::Target>> target() {
    KJ_IF_MAYBE (settings, store.settings()) {
      return kj::heap<BackupLoop::Target>(BackupLoop::Target{
          .schedule = kj::mv(settings->schedule),
          .store = backupdStore(io.provider->getTimer(), backupd, kj::mv(settings->store)),
          .spool = [this, recipient = kj::mv(settings->recipient)](kj::Date taken,
                                                                   uint64_t cluster) {
            return spool(recipient, taken, cluster);
          }});
    }
    return nullptr;
  }

  kj::Promise<BackupUpload> spool(kj::StringPtr recipient, kj::Date taken, uint64_t cluster) {
    auto spooled = co_await spoolSnapshot(member, queue, folder, recipient);
    auto signature = adapter.sign({.taken = taken,
                                   .cluster = cluster,
                                   .bytes = spooled.databaseBytes,
                                   .sha256 = kj::mv(spooled.digest)});
    co_return BackupUpload{kj::mv(spooled.file),
                           co_await spoolBytes(queue, folder, kj::mv(signature))};
  }
};

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  auto& clock = kj::systemPreciseCalendarClock();
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
  MemberProxy routes(io, KJ_BIND_METHOD(adapter, authorities));
  JoinTokenBook tokens({.timer = timer, .clock = clock, .member = [&]() -> etcd::Etcd& {
                          return KJ_ASSERT_NONNULL(reconciler).settledMember();
                        }});
  auto& membership =
      reconciler.emplace(Dependencies{.timer = timer,
                                      .clock = clock,
                                      .chance = [&] { return unit(generator); },
                                      .files = files,
                                      .store = adapter,
                                      .peers = peers,
                                      .endpoints = endpoints,
                                      .routes = routes,
                                      .recovered = KJ_BIND_METHOD(tokens, revokeForRecovery)});
  BootstrapStatus bootstrapStatus(
      {.timer = timer,
       .runs = [&] { return adapter.running(); },
       .endpoints = endpoints,
       .publish = [&](bool selfHosted) { return adapter.publishSelfHosted(selfHosted); }});
  Backups backups(io, disk, folder, store, adapter, endpoints.at(kLocal));
  SignSnapshot sign = KJ_BIND_METHOD(adapter, sign);
  Rules rules(capnp::Schema::from<rpc::Etcd>());
  RequestTrace trace(timer, rules);
  auto serving = serveUnix(*io.lowLevelProvider, timer, kj::mv(listening), [&](const UnixPeer&) {
    return makeServer({timer, clock, membership, files, kept, disk, tokens, sign}, trace);
  });
  log::info("listening");
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  membership.run()
      .exclusiveJoin(bootstrapStatus.run())
      .exclusiveJoin(backups.run())
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
