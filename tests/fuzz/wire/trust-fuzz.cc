// A machine that sends trustd any bytes after its handshake: the server of port 50001, in one
// process without a socket.
//
// link: trustd-lib
#include "tests/fuzz/wire/pipe-server.h"
#include "tests/testbeds/trust-testbed.h"

using talos::testbeds::TrustTestbed;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The bootstrap is answered too.
  static auto* fuzzed = new talos::fuzz::FuzzedTestbed<TrustTestbed>(TrustTestbed::kResults + 1);
  fuzzed->run(kj::arrayPtr(data, size));
  return 0;
}
