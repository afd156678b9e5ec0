// Metrics of a busy node: how long apid works to write them, and how large they are.
//
//   metrics-bench [RUNS]   prints {"series":N,"bytes":N,"p50us":…}
//
// The time is processor time of the renderers alone: what machined answers with is made once, as a
// node with 64 processors, 200 control groups, 40 links, 16 disks and 12 services has it.
//
// link: apid-metrics
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "apid/metrics/kernel-metrics.h"
#include "apid/metrics/node-metrics.h"
#include "tests/bench/arguments.h"

namespace talos::metrics {
namespace {

double processorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct BusyNode {
  kj::String stat, dev, disks;
  capnp::MallocMessageBuilder cgroups, services;

  BusyNode() {
    kj::Vector<kj::String> cpus, links, blocks;
    for (unsigned i = 0; i < 64; ++i) {
      cpus.add(kj::str("cpu", i, " 123456 789 23456 98765432 1234 0 567 8"));
    }
    for (unsigned i = 0; i < 40; ++i) {
      links.add(kj::str("veth", i, ": 123456789 98765 0 1 0 0 0 12 987654321 87654 0 0 0 0 0 0"));
    }
    for (unsigned i = 0; i < 16; ++i) {
      blocks.add(
          kj::str(" 8 ", i, " nvme", i, "n1 12345 67 890123 4567 8901 23 456789 12 0 34 56"));
    }
    stat = kj::strArray(cpus, "\n");
    dev = kj::strArray(links, "\n");
    disks = kj::strArray(blocks, "\n");
    auto groups = cgroups.initRoot<rpc::Machine::CgroupsResults>().initGroups(200);
    for (auto i : kj::indices(groups)) {
      groups[i].setPath(
          kj::str("kubepods/burstable/pod0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9/cri-", i));
      groups[i].initMemory().setCurrent(123'456'789);
      groups[i].initCpu().setUsageUs(987'654'321);
      groups[i].initPids().setCurrent(12);
      groups[i].initIo().setReadBytes(3'456'789);
    }
    auto list = services.initRoot<rpc::Services::ListResults>().initServices(12);
    for (auto i : kj::indices(list)) list[i].setId(kj::str("service-", i));
  }
  kj::String render(size_t& series) {
    MetricsText out(Format::kPrometheus);
    writeStat(out, stat.asArray());
    writeNetworkDevices(out, dev.asArray());
    writeDisks(out, disks.asArray());
    writeCgroups(out, cgroups.getRoot<rpc::Machine::CgroupsResults>().asReader().getGroups(), 0);
    writeServices(out, services.getRoot<rpc::Services::ListResults>().asReader().getServices());
    series = out.series();
    return out.finish();
  }
};

void measure(unsigned runs) {
  BusyNode node;
  std::vector<double> times;
  size_t series = 0, bytes = 0;
  for (unsigned i = 0; i < runs; ++i) {
    auto begin = processorSeconds();
    bytes = node.render(series).size();
    times.push_back((processorSeconds() - begin) * 1e6);
  }
  std::sort(times.begin(), times.end());
  printf("{\"series\":%zu,\"bytes\":%zu,\"p50us\":%.0f}\n", series, bytes, times[times.size() / 2]);
}

}  // namespace
}  // namespace talos::metrics

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "metrics-bench", "[RUNS]", [](auto& arguments) {
    arguments.expect(0, 1);
    talos::metrics::measure(arguments.numberOr(300, 1, "RUNS", 1, 1'000'000));
  });
}
