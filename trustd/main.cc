// trustd: signs the certificates of nodes without the CA key. Wiring only; signing-policy.h
// describes what it signs, trustd-server.h the limits of callers.
//
// Its environment has the listening socket that its supervisor holds and the path of machined's
// socket (common/base/node-layout.h). Needs no capability and writes no file.
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "trustd/issuance-records.h"
#include "trustd/signing-secrets.h"
#include "trustd/trustd-server.h"

namespace talos::trustd {

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  auto& clock = kj::systemPreciseCalendarClock();
  auto listening = inheritedSocket(kListenTcpVariable);

  StoreClient store(lowLevel, timer, machinedSocket(), kj::str("trustd"));
  Issuer issuer(clock, kj::systemPreciseMonotonicClock());
  Secrets secrets(store, timer, clock, issuer);
  Records records(store, timer, clock);
  StoredJoinTokens tokens(
      timer, reconnecting(lowLevel, timer, kj::str(machinedSocket())).castAs<rpc::Machined>());
  Keep keep = [&](Record record) { return records.keep(kj::mv(record)); };
  log::info("waiting for the CA");
  secrets.ready().wait(io.waitScope);
  records.load(issuer).wait(io.waitScope);
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("listening");
  serveTls(
      lowLevel, timer, kj::mv(listening), secrets.endpoint(),
      [&](const Peer& peer) { return openSession(issuer, tokens, keep, timer, peer); }, kLimits)
      .wait(io.waitScope);
}

}  // namespace talos::trustd

int main(int, char**) {
  talos::crash::reportCrashes("trustd");
  auto failure = kj::runCatchingExceptions([] { talos::trustd::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // Serving ends only on errors; the supervisor restarts trustd.
}
