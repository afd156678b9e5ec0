// A machine that sends trustd anything after its handshake: what port 50001 serves, in one process
// without a socket.
//
// link: trustd-lib
#include "tests/fuzz/wire/pipe-server.h"
#include "tests/testbeds/trust-testbed.h"

namespace {

using namespace talos;

struct FuzzedServer {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  testbeds::TrustTestbed trust{timer};
  fuzz::PipeServer server{scope, timer, [this]() { return trust.open(); }};
  kj::Array<kj::byte> right = trust.conversation();

  // The bootstrap is answered too.
  FuzzedServer() { server.check(right, testbeds::TrustTestbed::kResults + 1, 0); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static FuzzedServer* fuzzed = new FuzzedServer;
  fuzzed->server.hostile(testbeds::hostileBytes(fuzzed->right, kj::arrayPtr(data, size)));
  fuzzed->server.honest([](capnp::Capability::Client bootstrap, kj::WaitScope& scope) {
    fuzzed->trust.use(kj::mv(bootstrap)).wait(scope);
  });
  return 0;
}
