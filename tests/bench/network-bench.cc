// Large networks: networkd's controller beside `ip -batch`, each in a separate network namespace.
//
//   network-bench [RUNS [KIND [LINKS]]]   prints a line for each kind of network and for a resync:
//   {"kind":"bridges","count":1000,"oursMs":…,"ipMs":…,"againMs":…,"sentAgain":0}
//   {"kind":"resync","count":4000,"oursMs":…}
//   {"kind":"memory","count":1000,"pssKiB":…}      of the program, if NETWORKD and CONFINE name it
//
// Processor time, the kernel's included; the medians of the runs, in which they take turns. Bonds
// and VLANs, which a host may lack, are measured in a guest (tests/kernel/scale-test.cc). Needs
// root.
//
// link: networkd-control machined-config-network GTest::gtest
#include "tests/bench/network-scale.h"

#include <stdio.h>

#include "tests/bench/arguments.h"
#include "tests/bench/memory.h"
#include "tests/network/node.h"

namespace talos::networkd {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const Scale& scale, unsigned runs) {
  std::vector<double> ours, ip, again;
  size_t sentAgain = 0;
  auto take = [&](const ScaleTimes& times) {
    KJ_REQUIRE(times.problem.empty(), times.problem.c_str());
    ours.push_back(times.ours);
    ip.push_back(times.ip);
    again.push_back(times.again);
    sentAgain = kj::max(sentAgain, times.sentAgain);
    if (ours.size() < runs) return;
    printf(
        "{\"kind\":\"%s\",\"count\":%u,\"oursMs\":%.1f,\"ipMs\":%.1f,\"againMs\":%.1f,"
        "\"sentAgain\":%zu}\n",
        scale.name.c_str(), scale.count, median(ours), median(ip), median(again), sentAgain);
    fflush(stdout);
  };
  for (unsigned i = 0; i < runs; ++i) measure(scale, take);
}

void resyncs(unsigned links, unsigned runs) {
  std::vector<double> times;
  auto take = [&](double time) {
    times.push_back(time);
    if (times.size() < runs) return;
    printf("{\"kind\":\"resync\",\"count\":%u,\"oursMs\":%.1f}\n", links, median(times));
    fflush(stdout);
  };
  for (unsigned i = 0; i < runs; ++i) resync(links, take);
}

// Measures networkd as a node runs it, at rest with `links` links and an address on each. They are
// existing bridges: a host may lack features that networkd always sets on new ones.
void memory(unsigned links) {
  size_t result = 0;
  Namespace place;
  place.run([&] {
    Node node;
    kj::Vector<netlink::Change> made;
    for (unsigned i = 0; i < links; ++i) {
      made.add(netlink::AddLink{kj::str("net", i), netlink::Bridge{}});
    }
    node.kernel->apply(made);
    for (unsigned i = 0; i < links; ++i) {
      auto name = kj::str("net", i);
      node.put<rpc::LinkSpecSpec>(name, [&](rpc::LinkSpecSpec::Builder spec) {
        spec.setName(name);
        spec.setUp(true);
      });
      node.put<rpc::AddressSpecSpec>(name, [&](rpc::AddressSpecSpec::Builder spec) {
        spec.setAddress(scaleAddress(i).c_str());
        spec.setLinkName(name);
      });
    }
    node.putLink();
    node.serve();
    node.start();
    node.until("all of it", [&] { return node.applied(2 * links + 1); });
    result = bench::memoryKiB(node.process(), "Pss");
  });
  KJ_REQUIRE(result > 0, "networkd was not measured");
  printf("{\"kind\":\"memory\",\"count\":%u,\"pssKiB\":%zu}\n", links, result);
}

}  // namespace
}  // namespace talos::networkd

int main(int argc, char** argv) {
  using namespace talos::networkd;
  return talos::bench::runMain(
      argc, argv, "network-bench", "[RUNS [KIND [LINKS]]]", [](auto& arguments) {
        arguments.expect(0, 3);
        auto runs = arguments.numberOr(3, 1, "RUNS", 1, 1000);
        auto links = arguments.numberOr(1000, 3, "LINKS", 1, 100'000);
        auto only = arguments.text(2);
        bool known = only == "";
        auto asked = [&](kj::StringPtr kind) {
          known = known || only == kind;
          return only == "" || only == kind;
        };
        bool all[] = {asked("bridges"), asked("routes"), asked("resync"), asked("memory")};
        if (!known) arguments.refuse("KIND is bridges, routes, resync or memory");
        if (all[0]) compare(bridges(1000), runs);
        if (all[1]) compare(routes(10'000), runs);
        if (all[2]) resyncs(4000, runs);
        if (all[3] && getenv("NETWORKD") != nullptr) memory(links);
      });
}
