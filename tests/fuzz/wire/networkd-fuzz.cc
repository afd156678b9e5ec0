// A daemon of the same machine that sends networkd anything: its socket's server with its
// controller, on a model of the kernel, in one process without a socket.
//
// link: networkd-control
#include "tests/fuzz/wire/pipe-server.h"
#include "tests/testbeds/networkd-testbed.h"

using talos::testbeds::NetworkdTestbed;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* fuzzed = new talos::fuzz::FuzzedTestbed<NetworkdTestbed>(NetworkdTestbed::kResults);
  fuzzed->run(kj::arrayPtr(data, size));
  return 0;
}
