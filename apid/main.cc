// apid: the API server of a node, TCP 50000. Wiring only; gate.h describes its work.
//
// SIGTERM stops it when the calls in progress are answered, at the latest after
// kLimits.drainTimeout.
//
// Its environment has the listening socket that its supervisor holds and the path of machined's
// socket (common/base/node-layout.h). Needs no capability and writes no file.
#include <malloc.h>
#include <signal.h>
#include <sys/utsname.h>

#include <random>

#include "apid/gate/gate.h"
#include "apid/grpc/grpc-api.h"
#include "apid/identity/node-identity.h"
#include "apid/join/join-service.h"
#include "apid/metrics/node-metrics-server.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"

namespace talos::apid {

// Fewer than machined's limit for apid (kMostClients there), because every client has a connection
// to it.
constexpr ServerLimits kLimits = {
    .connections = 1280, .connectionsPerPeer = 320, .questions = 2048};

void run() {
  refuseCoreDumps();  // because of the certificate's key
  kj::UnixEventPort::captureSignal(SIGTERM);
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  auto listening = inheritedSocket(kListenTcpVariable);
  auto stop = io.unixEventPort.onSignal(SIGTERM).ignoreResult().fork();
  auto machined = machinedSocket();
  utsname kernel{};
  uname(&kernel);

  StoreClient store(lowLevel, timer, machined, kj::str("apid"));
  NodeIdentity identity(store, kernel.nodename);
  JoinService join(io, kj::systemPreciseCalendarClock(), store, identity);
  Budget budget(kClientBudget);
  PeerConnections peers(timer, [&](const Ip& address) {
    if (!identity.mayForward()) refuseToForward();
    return dialMachine(lowLevel, timer, identity.client(), address, kApidPort, address.toString(),
                       budget);
  });
  NodeMaintenance maintenance(identity, lowLevel, timer, machined);
  AuditLog audit(timer, machinedOf(lowLevel, timer, machined));
  RequestIds ids(std::random_device{}());
  Rules rules(capnp::Schema::from<rpc::Cluster>());
  CallCounts calls(rules);
  Gate gate(
      timer,
      [&](kj::Own<Budget::Account> account, kj::StringPtr client) {
        return localNode(lowLevel, timer, machined, kj::mv(account), client);
      },
      peers, budget, audit, ids, identity.self(), maintenance, calls);
  metrics::NodeMetricsServer metricsServer(lowLevel, timer, store, identity.metrics(), machined,
                                           budget, calls);
  grpcapi::GrpcApi grpcApi;
  identity.server().enableHttp2();
  log::info("waiting for certificates");
  bool serving = false;
  auto served = identity.ready().then([&]() {
    log::info("listening");
    serving = true;
    return serveTls(
        lowLevel, timer, kj::mv(listening), identity.server(),
        [&](const Peer& peer) { return gate.open(peer); }, kLimits, stop.addBranch(),
        grpcapi::grpcProtocol(timer, grpcApi));
  });
  // Before apid serves, no call is in progress.
  auto early = stop.addBranch().then([&]() -> kj::Promise<void> {
    if (serving) return kj::NEVER_DONE;
    return kj::READY_NOW;
  });
  auto settled = identity.ready()
                     .then([&]() { return timer.afterDelay(5 * kj::SECONDS); })
                     .then([]() { releaseStartMemory(); })
                     .eagerlyEvaluate(nullptr);
  served.exclusiveJoin(kj::mv(early))
      .exclusiveJoin(join.run())
      .exclusiveJoin(metricsServer.run())
      .wait(io.waitScope);
}

}  // namespace talos::apid

int main(int, char**) {
  talos::crash::reportCrashes("apid");
  // Maps large messages separately, so that their memory is returned when they are freed. By
  // default the first large messages raise this bound, and the remaining heap with its holes counts
  // against the limit.
  constexpr int kMapped = 128 << 10;
  mallopt(M_MMAP_THRESHOLD, kMapped);
  auto failure = kj::runCatchingExceptions([] { talos::apid::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
    return 1;  // The supervisor starts apid again.
  }
  return 0;  // stopped by SIGTERM
}
