// manifestd: fetches manifests. Wiring only: extra-manifests.h says which, and when.
//
// Its environment names machined's socket (common/base/node-layout.h). It parses servers' answers
// (TLS, HTTP and YAML), so it has no capability, no key of the cluster, and no file but the
// resolver's and the public CAs. kubed creates the objects.
#include <random>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "manifestd/extra-manifests.h"

namespace talos::manifestd {

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  std::mt19937 generator(std::random_device{}());
  std::uniform_real_distribution<double> unit(0, 1);
  kj::Function<double()> random = [&] { return unit(generator); };
  StoreClient store(lowLevel, timer, machinedSocket(), kj::str(kOwner));
  ExtraManifests manifests({.timer = timer, .random = random, .store = store},
                           {lowLevel, io.unixEventPort, timer},
                           [] { return readFile(kAuthoritiesBundle, 8u << 20); });
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("waiting for manifests");
  manifests.run().wait(io.waitScope);
}

}  // namespace talos::manifestd

int main(int, char**) {
  talos::crash::reportCrashes("manifestd");
  auto failure = kj::runCatchingExceptions([] { talos::manifestd::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // It exits only by failing; the supervisor restarts it.
}
