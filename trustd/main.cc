// trustd: signs the certificates of machines that do not have the authority's key. Wiring only;
// what it signs is told in signing-policy.h, who may ask how often in trustd-server.h.
//
// Its environment tells it the listening socket that its supervisor holds and where machined
// listens (common/base/node-layout.h). Needs no capability and writes no file.
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
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
  Keep keep = [&](const Record& record) { return records.keep(record); };
  log::info("waiting for the CA");
  secrets.ready().wait(io.waitScope);
  records.recall(issuer).wait(io.waitScope);
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("listening");
  serveTls(
      lowLevel, timer, kj::mv(listening), secrets.endpoint(),
      [&](const Peer& peer) { return welcome(issuer, keep, timer, peer); }, kLimits)
      .wait(io.waitScope);
}

}  // namespace talos::trustd

int main(int, char**) {
  auto failure = kj::runCatchingExceptions([] { talos::trustd::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // it ends only by failing; its supervisor starts it again
}
