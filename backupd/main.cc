// backupd: stores backups of etcd. Wiring only: backup-server.h describes its work.
//
// Its environment names the listening unix socket that its supervisor holds, and machined's socket
// (common/base/node-layout.h). It parses a store's answers (TLS, HTTP and XML), so it has no
// capability, no key of the cluster, and no file but the resolver's and the public CAs: snapshots
// arrive encrypted and signed.
#include "backupd/backup-server.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "common/wire/store-adapter.h"
#include "rpc/etcd-resources.capnp.h"

namespace talos::backupd {

constexpr kj::StringPtr kBackupId = "etcd"_kj;

kj::Maybe<S3Settings> settingsOf(Watched<rpc::EtcdBackupConfigSpec>& configs) {
  KJ_IF_MAYBE (spec, configs.find(kBackupId)) {
    return S3Settings{.endpoint = kj::str(spec->getEndpoint()),
                      .bucket = kj::str(spec->getBucket()),
                      .region = kj::str(spec->getRegion()),
                      .accessKey = kj::str(spec->getAccessKey()),
                      .secretKey = kj::str(spec->getSecretKey()),
                      .authorities = kj::str(spec->getAuthorities())};
  }
  return nullptr;
}

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  auto listening = inheritedSocket(kListenUnixVariable);
  DiskThread disk;
  StoreClient store(lowLevel, timer, machinedSocket(), kj::str("backupd"));
  Signal changed;
  StoreInputs inputs(store, [&] { changed.raise(); });
  Watched<rpc::EtcdBackupConfigSpec> configs;
  inputs.watch(configs, kBackupId);
  S3Dependencies s3{{lowLevel, io.unixEventPort, timer}, kj::systemPreciseCalendarClock(), disk};
  BackupServer::Dependencies deps{
      .timer = timer,
      .settings = [&] { return settingsOf(configs); },
      .changed = changed,
      .open = [&](S3Settings settings) { return s3Store(s3, kj::mv(settings)); }};
  auto serving = serveUnix(
      lowLevel, timer, kj::mv(listening), [&](const UnixPeer& peer) -> capnp::Capability::Client {
        if (peer.uid != kEtcdUid) {
          return error(ErrorKind::kPermissionDenied, "backupd serves etcd-supervisor alone");
        }
        return kj::heap<BackupServer>(deps);
      });
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("listening");
  serving.wait(io.waitScope);
}

}  // namespace talos::backupd

int main(int, char**) {
  talos::crash::reportCrashes("backupd");
  auto failure = kj::runCatchingExceptions([] { talos::backupd::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // It exits only by failing; the supervisor restarts it.
}
