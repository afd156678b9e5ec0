// logd: sends the logs of a node to remote receivers. Wiring only: destination-set.h selects them,
// destination.h sends.
//
// Its environment names machined's socket and logd's folder (common/base/node-layout.h). It parses
// the receivers' answers (TLS, HTTP and JSON), so it has no capability and no file but its folder,
// the resolver's files and the public CAs.
#include <random>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/crash/crash-handler.h"
#include "common/memory/process-memory.h"
#include "common/wire/rpc-server.h"
#include "logd/destination-set.h"

namespace talos::logd {

void run() {
  refuseCoreDumps();
  auto io = kj::setupAsyncIo();
  auto& lowLevel = *io.lowLevelProvider;
  auto& timer = io.provider->getTimer();
  std::mt19937 generator(std::random_device{}());
  std::uniform_real_distribution<double> unit(0, 1);
  kj::Function<double()> random = [&] { return unit(generator); };
  DiskThread disk;
  ReceiverDependencies receivers{lowLevel, io.unixEventPort, timer, disk};
  StoreClient store(lowLevel, timer, machinedSocket(), kj::str("logd"));
  DestinationSet destinations(
      {.timer = timer,
       .clock = kj::systemPreciseCalendarClock(),
       .random = random,
       .disk = disk,
       .store = store,
       .machined = reconnecting(lowLevel, timer, kj::str(machinedSocket())).castAs<rpc::Machined>(),
       .state = kj::str(fromEnvironment(kStateVariable, kLogdState)),
       .connector = [&](const DestinationSettings& settings) -> Connection {
    auto address = ReceiverAddress::parse(settings.endpoint);
    if (address.transport == Transport::kGrpc) return eventReceiver(receivers, kj::mv(address));
    if (address.transport == Transport::kHttp || address.transport == Transport::kHttps) {
           return otlpReceiver(
               receivers, kj::mv(address),
               {.authorities = kj::str(settings.authorities),
                .headers = KJ_MAP(header, settings.headers) { return header.clone();
    }
    , .compression = settings.compression});
}
return Dial([&receivers, address = kj::mv(address), authorities = kj::str(settings.authorities)]() {
  return connectReceiver(receivers, address, authorities);
});
}
});
auto settled = releaseStartMemoryLater(timer).eagerlyEvaluate(nullptr);
log::info("waiting for destinations");
destinations.run().wait(io.waitScope);
}

}  // namespace talos::logd

int main(int, char**) {
  talos::crash::reportCrashes("logd");
  auto failure = kj::runCatchingExceptions([] { talos::logd::run(); });
  KJ_IF_MAYBE (e, failure) {
    talos::log::error("exiting", {{"error", talos::messageOf(*e)}});
  }
  return 1;  // It ends only by failing; the supervisor restarts it.
}
