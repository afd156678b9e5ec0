// The listening sockets of the node. Each is made once in the machine's life and held by process 1
// as "listen/<service>": a new brain takes over its predecessor's sockets, and clients that connect
// meanwhile wait a moment. A socket that process 1 did not hold yet at a crash is lost with its
// brain, and the next brain makes it again. The same holds for the pairs of sockets over which a
// service hands descriptors to its next start.
#pragma once

#include "machined/brain/daemon-table.h"
#include "machined/process1/process1.h"

namespace talos::machined {

// Resolves with the held socket, or with a new one once process 1 holds it.
kj::Promise<kj::AutoCloseFd> heldSocket(Process1& process1, kj::StringPtr service,
                                        kj::Function<kj::AutoCloseFd()> make);

// A connected pair, held as "kept/<service>" and "keeping/<service>" in this order: if the second
// one is held, the first one belongs to the same pair.
struct KeptPair {
  kj::AutoCloseFd keeping, kept;
};
kj::Promise<KeptPair> keptPair(Process1& process1, kj::StringPtr service);

// Every process may connect: its uid determines what it may do (machined/api/node-server.h).
constexpr unsigned kMachinedSocketMode = 0666;
kj::Promise<kj::AutoCloseFd> openMachinedSocket(Process1& process1);
kj::Promise<kj::AutoCloseFd> openDaemonSocket(Process1& process1, const Daemon& daemon);

}  // namespace talos::machined
