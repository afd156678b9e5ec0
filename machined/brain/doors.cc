#include "machined/brain/doors.h"

#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/wire/rpc-server.h"
#include "machined/brain/surroundings.h"

namespace talos::machined {

kj::Promise<kj::AutoCloseFd> heldSocket(Process1& process1, kj::StringPtr service,
                                        kj::Function<kj::AutoCloseFd()> make) {
  auto name = kj::str("listen/", service);
  KJ_IF_MAYBE (held, process1.takeHeld(name)) co_return kj::mv(*held);
  auto made = make();
  co_await process1.hold(name, made.get());
  co_return kj::mv(made);
}

kj::Promise<kj::AutoCloseFd> openMachinedDoor(Process1& process1) {
  makeDirectories(kRunFolder, 0755);
  return heldSocket(process1, "machined", [] { return listenUnix(kMachinedSocket, 0666); });
}

kj::Promise<kj::AutoCloseFd> openDoor(Process1& process1, const Daemon& daemon) {
  return heldSocket(process1, daemon.id, [&door = daemon.door]() {
    if (door.port != 0) return listenTcp(anyAddress(), door.port, door.queue);
    return listenUnix(door.socket, door.mode);
  });
}

}  // namespace talos::machined
