// Round trip of a unary call to containerd over its Unix socket, one after the other.
//
//   containerd-bench SOCKET CALLS     prints {"calls":N,"p50us":…,"p99us":…}
//
// link: common-grpc
#include <algorithm>
#include <vector>

#include "common/grpc/grpc-client.h"
#include "tests/bench/arguments.h"
#include "tests/bench/processes.h"

namespace talos::bench {
namespace {

constexpr kj::StringPtr kVersion = "/containerd.services.version.v1.Version/Version"_kj;
constexpr unsigned kWarmUp = 1000;

void measure(const Arguments& arguments) {
  arguments.expect(2, 2);
  auto calls = arguments.number(2, "CALLS", 1, 10'000'000);
  auto io = kj::setupAsyncIo();
  auto name = kj::str("unix:", arguments.text(1));
  auto address = io.provider->getNetwork().parseAddress(name).wait(io.waitScope);
  grpc::Client client(io.provider->getTimer(), kj::str("containerd"),
                      [&]() { return address->connect(); });
  std::vector<double> micros;
  for (unsigned i = 0; i < calls + kWarmUp; ++i) {
    auto began = nanoseconds();
    client.unary(kVersion, nullptr, 10 * kj::SECONDS, nullptr).wait(io.waitScope);
    if (i >= kWarmUp) micros.push_back(double(nanoseconds() - began) / 1000);
  }
  std::sort(micros.begin(), micros.end());
  auto at = [&](double part) { return micros[static_cast<size_t>(part * (micros.size() - 1))]; };
  printf("{\"calls\":%u,\"p50us\":%.1f,\"p99us\":%.1f}\n", calls, at(0.5), at(0.99));
}

}  // namespace
}  // namespace talos::bench

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "containerd-bench", "SOCKET CALLS",
                               talos::bench::measure);
}
