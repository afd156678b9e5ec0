// probed: asks hosts whether they answer. Wiring only: probe-set.h says which, and when.
//
// Its environment names machined's socket (common/base/node-layout.h). It parses servers' answers
// (TLS and HTTP), so it has no capability, no key of the cluster, and no file but the resolver's
// and the public CAs.
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "probed/probe-set.h"

namespace talos::probed {

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  StoreClient store(lowLevel, timer, machinedSocket(), kj::str("probed"));
  KeptAuthorities authorities(timer, [] { return readFile(kAuthoritiesBundle, 8u << 20); });
  ProbeSet::Ask asking = [&](const ProbeSettings& settings) {
    return ask({lowLevel, io.unixEventPort, timer}, authorities, settings);
  };
  ProbeSet probes(timer, store, asking);
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("waiting for probes");
  probes.run().wait(io.waitScope);
}

}  // namespace talos::probed

int main(int, char**) {
  talos::crash::reportCrashes("probed");
  auto failure = kj::runCatchingExceptions([] { talos::probed::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // It exits only by failing; the supervisor restarts it.
}
