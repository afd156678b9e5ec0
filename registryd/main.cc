// registryd: serves the node's cache of images on 127.0.0.1:3172. Wiring only: cache-server.h says
// how.
//
// Its environment names the listening socket that its supervisor holds. It reads requests of any
// process and media that anybody may have made, so it has no capability, no connection to another
// program, and no file but the folders of the cache.
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/image-cache/cache-layout.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "registryd/cache-server.h"

namespace talos::registryd {

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  auto listening = io.lowLevelProvider->wrapListenSocketFd(inheritedSocket(kListenTcpVariable));
  auto serving = serveCache(timer, kj::mv(listening), imagecache::kCacheRoots);
  releaseStartMemory();
  auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
  log::info("listening");
  serving.wait(io.waitScope);
}

}  // namespace talos::registryd

int main(int, char**) {
  talos::crash::reportCrashes("registryd");
  auto failure = kj::runCatchingExceptions([] { talos::registryd::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // It exits only by failing; the supervisor restarts it.
}
