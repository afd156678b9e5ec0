#include "machined/brain/doors.h"

#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/wire/rpc-server.h"
#include "machined/brain/surroundings.h"
#include "machined/services/service-table.h"

namespace talos::machined {
namespace {

// A whole rack may come up at once: who is not served yet waits in the kernel's queue.
constexpr int kTrustdQueue = 4096;

}  // namespace

kj::Promise<kj::AutoCloseFd> heldSocket(Process1& process1, kj::StringPtr service,
                                        kj::Function<kj::AutoCloseFd()> make) {
  auto name = kj::str("listen/", service);
  KJ_IF_MAYBE (held, process1.takeHeld(name)) co_return kj::mv(*held);
  auto made = make();
  co_await process1.hold(name, made.get());
  co_return kj::mv(made);
}

kj::Promise<Doors> openDoors(Process1& process1) {
  makeDirectories(kRunFolder, 0755);
  Doors doors;
  doors.machined =
      co_await heldSocket(process1, "machined", [] { return listenUnix(kMachinedSocket, 0666); });
  doors.networkd =
      co_await heldSocket(process1, "networkd", [] { return listenUnix(kNetworkdSocket, 0600); });
  doors.apid =
      co_await heldSocket(process1, "apid", [] { return listenTcp(anyAddress(), kApidPort); });
  co_return kj::mv(doors);
}

kj::Promise<kj::AutoCloseFd> openTrustdDoor(Process1& process1) {
  return heldSocket(process1, "trustd",
                    [] { return listenTcp(anyAddress(), kTrustdPort, kTrustdQueue); });
}

}  // namespace talos::machined
