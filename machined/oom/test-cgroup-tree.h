// Files like those of cgroupfs and /proc/pressure, in a temporary folder.
#pragma once

#include "common/testing/test-tree.h"
#include "machined/oom/cgroup-memory.h"

namespace talos::machined {

struct TestCgroupTree {
  TestTree tree;

  TestCgroupTree() { pressure(0, 0); }
  CgroupMemory memory() const { return {tree.at("cgroup"), tree.at("proc")}; }
  // Sets the pressure of the node.
  void pressure(double avg10, uint64_t total) {
    tree.directory("proc/pressure");
    tree.file("proc/pressure/memory", text(avg10, total));
  }
  void pressureOf(kj::StringPtr path, double avg10, uint64_t total) {
    tree.directory(kj::str("cgroup/", path));
    tree.file(kj::str("cgroup/", path, "/memory.pressure"), text(avg10, total));
  }
  void cgroup(kj::StringPtr path, uint64_t current, kj::StringPtr max = "max",
              kj::StringPtr procs = "", bool populated = true) {
    auto folder = kj::str("cgroup/", path);
    tree.directory(folder);
    tree.file(kj::str(folder, "/memory.current"), kj::str(current, "\n"));
    tree.file(kj::str(folder, "/memory.peak"), kj::str(current + 1, "\n"));
    tree.file(kj::str(folder, "/memory.max"), kj::str(max, "\n"));
    tree.file(kj::str(folder, "/cgroup.procs"), procs);
    tree.file(kj::str(folder, "/cgroup.events"),
              kj::str("populated ", populated ? 1 : 0, "\nfrozen 0\n"));
    tree.file(kj::str(folder, "/cgroup.kill"), "");
  }
  bool isKilled(kj::StringPtr path) const {
    return readFile(tree.at(kj::str("cgroup/", path, "/cgroup.kill"))) == "1";
  }

 private:
  static kj::String text(double avg10, uint64_t total) {
    return kj::str("some avg10=", avg10 * 2, " avg60=0.50 avg300=0.00 total=", total * 2,
                   "\nfull avg10=", avg10, " avg60=0.25 avg300=0.00 total=", total, "\n");
  }
};

}  // namespace talos::machined
