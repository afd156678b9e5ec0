// For figures and hostile tests: the real trustd, with machined's store and its journal, and the
// kernel's figures of a process.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machined/process1/test-process1.h"
#include "machined/resources/store-records.h"
#include "machined/resources/store-server.h"
#include "machined/resources/store.h"
#include "tests/bench/processes.h"
#include "trustd/test-trustd-node.h"

namespace talos::trustd {

using bench::child;
using bench::execDaemon;
using testing::kToken;

// Returns a field of /proc/<pid>/status, in KiB.
inline unsigned memoryOf(pid_t pid, kj::StringPtr field) {
  auto status = readFile(kj::str("/proc/", pid, "/status"));
  auto* line = strstr(status.cStr(), kj::str("\n", field, ":").cStr());
  KJ_REQUIRE(line != nullptr, field);
  return strtoul(line + field.size() + 2, nullptr, 10);
}
inline double processorSeconds(pid_t pid) {
  auto stat = readFile(kj::str("/proc/", pid, "/stat"));
  unsigned long user, system;
  KJ_REQUIRE(sscanf(strrchr(stat.cStr(), ')') + 2,
                    "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2);
  return static_cast<double>(user + system) / sysconf(_SC_CLK_TCK);
}

class StoreOnly final : public rpc::Machined::Server {
 public:
  explicit StoreOnly(machined::Store& store) : theStore(store) {}

 protected:
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(machined::serveStore(theStore, 51));
    return kj::READY_NOW;
  }

 private:
  machined::Store& theStore;
};

inline void serveStoreOf(const pki::CertificateAndKey& authority, int unixSocket) {
  auto io = kj::setupAsyncIo();
  Registry registry;
  machined::FakeMachine machine;
  machined::FakeProcess1 process1(machine);
  machined::Store store(registry, kj::systemPreciseCalendarClock());
  store.attachJournal(process1).wait(io.waitScope);
  machined::putRecord<rpc::RootSecretSpec>(store, "os", [&](auto spec) {
    auto os = spec.initOs();
    os.initCa().setCrt(authority.certificate.asBytes());
    os.getCa().setKey(authority.key.bytes());
    os.setToken(kToken);
    os.setDnsDomain("cluster.local");
    os.setControlPlaneKnown(true);
    os.setCertLifetimeS(24 * 3600);
  });
  serveUnix(
      *io.lowLevelProvider, io.provider->getTimer(), kj::AutoCloseFd(unixSocket),
      [&](const UnixPeer&) -> capnp::Capability::Client { return kj::heap<StoreOnly>(store); })
      .wait(io.waitScope);
}

// trustd with a separate store, both processes, in a separate network (own-network.h).
class TrustdProcess {
 public:
  explicit TrustdProcess(pki::KeyType type)
      : authority(pki::makeAuthority({.organization = "talos", .keyType = type})),
        listening(listenTcp("::", 0, 4096)),
        unixSocket(listenUnix(path, 0600)),
        store(child([this] { serveStoreOf(authority, unixSocket.release()); })),
        trustd(child([this] { execDaemon("trustd", listening, path); })) {
    port = portOf(listening);
  }
  ~TrustdProcess() noexcept(false) {
    for (pid_t pid : {trustd, store}) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    removeTree(directory);
  }
  KJ_DISALLOW_COPY_AND_MOVE(TrustdProcess);

  pki::CertificateAndKey authority;
  uint16_t port;

 private:
  static kj::String makeDirectory() {
    char name[] = "/tmp/trust-bench-XXXXXX";
    return kj::str(mkdtemp(name));
  }
  OwnNetwork network;
  kj::String directory = makeDirectory();
  kj::String path = kj::str(directory, "/machined.sock");
  kj::AutoCloseFd listening, unixSocket;

 public:
  pid_t store, trustd;
};

}  // namespace talos::trustd
