// The sockets that the machine is reached by. Each is made once in the life of the machine and held
// by process 1 as "listen/<service>": a new brain takes up what its predecessor listened with, and
// a client that dials meanwhile waits a moment. One that a crash kept from being held is gone with
// its brain, and the next one makes it.
#pragma once

#include "machined/brain/daemon-table.h"
#include "machined/process1/process1.h"

namespace talos::machined {

// The held socket, or a new one, once process 1 holds it.
kj::Promise<kj::AutoCloseFd> heldSocket(Process1& process1, kj::StringPtr service,
                                        kj::Function<kj::AutoCloseFd()> make);

kj::Promise<kj::AutoCloseFd> openMachinedDoor(Process1& process1);
kj::Promise<kj::AutoCloseFd> openDoor(Process1& process1, const Daemon& daemon);

}  // namespace talos::machined
