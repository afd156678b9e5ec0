// For tests: machined.sock in a separate folder, with a store and no other part of machined.
#pragma once

#include <kj/async-io.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/wire/rpc-server.h"
#include "machined/api/node-server.h"

namespace talos {

class MachinedSocket {
 public:
  // `uid`: uid as which every caller counts. `storeFor`: the store with a caller's rights.
  MachinedSocket(kj::AsyncIoContext& io, unsigned uid,
                 kj::Function<rpc::Store::Client(unsigned uid)> storeFor)
      : io(io), uid(uid), storeFor(kj::mv(storeFor)) {}
  ~MachinedSocket() noexcept(false) {
    serving = nullptr;
    removeTree(directory);
  }
  KJ_DISALLOW_COPY_AND_MOVE(MachinedSocket);

  kj::StringPtr socket() const { return path; }
  void start() {
    serving = serveUnix(*io.lowLevelProvider, io.provider->getTimer(), listenUnix(path, 0600),
                        [this](const UnixPeer& peer) -> capnp::Capability::Client {
                          rpc::Node::Client none =
                              KJ_EXCEPTION(DISCONNECTED, "this model has the store alone");
                          return machined::serveMachined(
                              UnixPeer{peer.pid, uid, uid}, none, none, storeFor(uid), [](auto) {},
                              [](auto) {}, nullptr, nullptr, nullptr, supervisor);
                        })
                  .eagerlyEvaluate(nullptr);
  }
  // Stops like a crash: connections end, and the stored data exists again at the next start.
  void stop() { serving = nullptr; }
  // Sets the callers' uid for connections from now on.
  void change(unsigned newUid) { uid = newUid; }
  // Sets the node's etcd-supervisor.
  void have(rpc::EtcdSupervisor::Client its) { supervisor = kj::mv(its); }

 private:
  kj::AsyncIoContext& io;
  unsigned uid;
  kj::Function<rpc::Store::Client(unsigned)> storeFor;
  kj::String directory = makeDirectory();
  kj::String path = kj::str(directory, "/machined.sock");
  rpc::EtcdSupervisor::Client supervisor =
      KJ_EXCEPTION(DISCONNECTED, "this model has no etcd-supervisor");
  kj::Maybe<kj::Promise<void>> serving;

  static kj::String makeDirectory() {
    char name[] = "/tmp/machined-socket-XXXXXX";
    KJ_ASSERT(mkdtemp(name) != nullptr);
    return kj::str(name);
  }
};

}  // namespace talos
