// A daemon of the same machine that sends machined any bytes: machined's socket server and the
// parts that answer its calls, in one process without a socket.
//
// link: machined-api machined-resources machined-services machined-logs
#include "tests/fuzz/wire/pipe-server.h"
#include "tests/testbeds/machined-testbed.h"

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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static FuzzedServer* fuzzed = new FuzzedServer;
  fuzzed->server.hostile(testbeds::hostileBytes(fuzzed->right, kj::arrayPtr(data, size)));
  fuzzed->machined.emptyStore();
  fuzzed->server.honest([](capnp::Capability::Client bootstrap, kj::WaitScope& scope) {
    testbeds::MachinedTestbed::use(kj::mv(bootstrap)).wait(scope);
  });
  return 0;
}
