// trustd: signs the certificates of machines that do not have the authority's key. Wiring only;
// what it signs is told in signing-policy.h, who may ask how often in trustd-server.h.
//
// Environment: TALOS_LISTEN_TCP_FD, the listening socket that its supervisor holds; TALOS_STORE
// (default /run/talos/machined.sock). Needs no capability and writes no file.
#include <stdlib.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/process-memory.h"
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
  auto listening = inheritedSocket("TALOS_LISTEN_TCP_FD");
  auto setting = getenv("TALOS_STORE");

  StoreClient store(lowLevel, timer, setting == nullptr ? "/run/talos/machined.sock" : setting,
                    kj::str("trustd"));
  Issuer issuer(clock, kj::systemPreciseMonotonicClock());
  Secrets secrets(store, timer, clock, issuer);
  Records records(store, timer, clock);
  Keep keep = [&](const Record& record) { return records.keep(record); };
  log::info("waiting for the CA");
  secrets.ready().wait(io.waitScope);
  records.recall(issuer).wait(io.waitScope);
  releaseStartMemory();
  log::info("listening");
  serveTls(
      lowLevel, timer, kj::mv(listening), secrets.endpoint(),
      [&](const Peer& peer) { return welcome(issuer, keep, timer, peer); }, kLimits)
      .wait(io.waitScope);
}

}  // namespace talos::trustd

int main() {
  auto failure = kj::runCatchingExceptions([] { talos::trustd::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // it ends only by failing; its supervisor starts it again
}
