// For the hostile pack and figures: runs the real apid as a separate program, with a model of
// machined.
#pragma once

#include "apid/gate/test-apid-node.h"
#include "tests/bench/processes.h"

namespace talos::hostile {

// The real apid of a node at this address, and a model of its machined.
class ApidProcess {
 public:
  ApidProcess(const apid::testing::Authority& authority, kj::StringPtr address)
      : socket(listenUnix(path, 0600)),
        listener(listenTcp(address, kApidPort)),
        machined(bench::child([&] { serveModel(authority, address); })),
        apid(bench::child([&] { bench::execDaemon("apid", listener, path); })) {}
  ~ApidProcess() noexcept(false) {
    for (pid_t pid : {apid, machined}) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    removeTree(directory);
  }
  KJ_DISALLOW_COPY_AND_MOVE(ApidProcess);

 private:
  kj::String directory = makeDirectory();
  kj::String path = kj::str(directory, "/machined.sock");
  kj::AutoCloseFd socket, listener;
  pid_t machined;

 public:
  const pid_t apid;

 private:
  static kj::String makeDirectory() {
    char name[] = "/tmp/hostile-pack-XXXXXX";
    return kj::str(mkdtemp(name));
  }
  void serveModel(const apid::testing::Authority& authority, kj::StringPtr address) {
    auto io = kj::setupAsyncIo();
    apid::testing::Model model;
    model.tag = kj::str("node ", address);
    model.setAddress(address);
    model.setCertificates(authority.forNode(address));
    serveUnix(*io.lowLevelProvider, io.provider->getTimer(), kj::mv(socket),
              [&](const UnixPeer&) -> capnp::Capability::Client {
                return kj::heap<apid::testing::ModelMachined>(model);
              },
              {.connections = 2048, .connectionsPerPeer = 2048})
        .wait(io.waitScope);
  }
};

}  // namespace talos::hostile
