// The servers of the daemons' sockets, each in one process without a socket.
//
// link: networkd-control common-netlink-model trustd-lib machined-api machined-services
#include "tests/fuzz/fuzz-target.h"
#include "tests/fuzz/wire/pipe-server.h"
#include "tests/testbeds/machined-testbed.h"
#include "tests/testbeds/networkd-testbed.h"
#include "tests/testbeds/trust-testbed.h"

using talos::testbeds::NetworkdTestbed;
using talos::testbeds::TrustTestbed;

// A daemon of the same machine that sends networkd anything: its socket's server with its
// controller, on a model of the kernel, in one process without a socket.
FUZZ_TARGET(networkd) {
  static auto* fuzzed = new talos::fuzz::FuzzedTestbed<NetworkdTestbed>(NetworkdTestbed::kResults);
  fuzzed->run(kj::arrayPtr(data, size));
  return 0;
}

// A machine that sends trustd any bytes after its handshake: the server of port 50001, in one
// process without a socket.
FUZZ_TARGET(trust) {
  // The bootstrap is answered too.
  static auto* fuzzed = new talos::fuzz::FuzzedTestbed<TrustTestbed>(TrustTestbed::kResults + 1);
  fuzzed->run(kj::arrayPtr(data, size));
  return 0;
}

namespace {

using namespace talos;

struct FuzzedServer {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  testbeds::MachinedTestbed machined{io, timer};
  fuzz::PipeServer server{io.waitScope, timer, [this]() { return machined.open(); }};
  kj::Array<kj::byte> right = machined.conversation();

  FuzzedServer() {
    server.check(right, testbeds::MachinedTestbed::kResults, testbeds::MachinedTestbed::kFailures);
  }
};

}  // namespace

// A daemon of the same machine that sends machined any bytes: machined's socket server and the
// parts that answer its calls, in one process without a socket.
FUZZ_TARGET(machined) {
  static FuzzedServer* fuzzed = new FuzzedServer;
  fuzzed->server.hostile(testbeds::hostileBytes(fuzzed->right, kj::arrayPtr(data, size)));
  fuzzed->machined.emptyStore();
  fuzzed->server.honest([](capnp::Capability::Client bootstrap, kj::WaitScope& scope) {
    testbeds::MachinedTestbed::use(kj::mv(bootstrap)).wait(scope);
  });
  return 0;
}
