// For tests: machined.sock in a folder of its own, behind which there is a store and nothing else.
#pragma once

#include <kj/async-io.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/wire/rpc-server.h"
#include "machined/api/node-server.h"

namespace talos {

class MachinedSocket {
 public:
  // `uid`: who every caller is taken for. `storeFor`: what a caller may do with resources.
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
  // Like a crash: connections end, and what was stored is there again at the next start.
  void stop() { serving = nullptr; }
  // For connections from now on.
  void change(unsigned newUid) { uid = newUid; }
  // The node has this one.
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
