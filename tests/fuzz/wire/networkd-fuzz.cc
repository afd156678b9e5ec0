// A daemon of the same machine that sends networkd anything: its socket's server with its
// controller, on a model of the kernel, in one process without a socket.
//
// link: networkd-control
#include "tests/fuzz/wire/pipe-server.h"
#include "tests/testbeds/networkd-testbed.h"

namespace {

using namespace talos;

struct FuzzedServer {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  testbeds::NetworkdTestbed networkd{timer};
  fuzz::PipeServer server{scope, timer, [this]() { return networkd.open(); }};
  kj::Array<kj::byte> right = testbeds::NetworkdTestbed::conversation();

  FuzzedServer() { server.check(right, testbeds::NetworkdTestbed::kResults, 0); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static FuzzedServer* fuzzed = new FuzzedServer;
  fuzzed->server.hostile(testbeds::hostileBytes(fuzzed->right, kj::arrayPtr(data, size)));
  fuzzed->server.honest([](capnp::Capability::Client bootstrap, kj::WaitScope& scope) {
    testbeds::NetworkdTestbed::use(kj::mv(bootstrap)).wait(scope);
  });
  return 0;
}
