// apid: the node's door, TCP 50000. Wiring only; what it does is told in gate.h.
//
// SIGTERM ends it when the calls under way are answered, at the latest after kLimits.farewell.
//
// Its environment tells it the listening socket that its supervisor holds and where machined
// listens (common/base/node-layout.h). Needs no capability and writes no file.
#include <signal.h>
#include <sys/utsname.h>

#include "apid/gate/gate.h"
#include "apid/grpc/grpc-protocol.h"
#include "apid/identity/node-identity.h"
#include "apid/join/join-service.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"

namespace talos::apid {

// Fewer than machined lets apid have (kMostClients there): every client has a connection to it.
constexpr ServerLimits kLimits = {
    .connections = 1280, .connectionsPerPeer = 320, .questions = 2048};

// How long a visitor is told why nothing he asks is answered any more, once maintenance mode is
// over.
constexpr auto kFarewell = 2 * kj::SECONDS;

void run() {
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
  Trust trust(store, kernel.nodename);
  JoinService join(io, kj::systemPreciseCalendarClock(), store, trust);
  Budget budget(kClientBudget);
  Fleet fleet(timer, [&](const Ip& address) {
    if (!trust.mayForward()) refuseToForward();
    auto name = address.toString();
    auto account = budget.account(kj::str("node ", name));
    return dialMachine(lowLevel, timer, trust.client(), address, kApidPort, name, kj::mv(account));
  });
  MaintenanceDoor door{
      [&] { return trust.inMaintenance(); },
      [&] {
        return trust.maintenanceOver().then([&timer] { return timer.afterDelay(kFarewell); });
      },
      [&](kj::Own<Budget::Account> account, kj::StringPtr) {
        return maintenanceNode(lowLevel, timer, machined, kj::mv(account));
      }};
  AuditLog audit(timer, machinedOf(lowLevel, timer, machined));
  Gate gate(
      timer,
      [&](kj::Own<Budget::Account> account, kj::StringPtr client) {
        return localNode(lowLevel, timer, machined, kj::mv(account), client);
      },
      fleet, budget, audit, trust.self(), kj::mv(door));
  edge::Edge edge;
  trust.server().speakH2();
  log::info("waiting for certificates");
  bool serves = false;
  auto serving = trust.ready().then([&]() {
    log::info("listening");
    serves = true;
    return serveTls(
        lowLevel, timer, kj::mv(listening), trust.server(),
        [&](const Peer& peer) { return gate.open(peer); }, kLimits, stop.addBranch(),
        edge::secondFace(timer, edge));
  });
  // Before it serves nothing is under way.
  auto early = stop.addBranch().then([&]() -> kj::Promise<void> {
    if (serves) return kj::NEVER_DONE;
    return kj::READY_NOW;
  });
  auto settled = trust.ready()
                     .then([&]() { return timer.afterDelay(5 * kj::SECONDS); })
                     .then([]() { releaseStartMemory(); })
                     .eagerlyEvaluate(nullptr);
  serving.exclusiveJoin(kj::mv(early)).exclusiveJoin(join.run()).wait(io.waitScope);
}

}  // namespace talos::apid

int main(int, char**) {
  auto failure = kj::runCatchingExceptions([] { talos::apid::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
    return 1;  // its supervisor starts it again
  }
  return 0;  // it was told to end
}
