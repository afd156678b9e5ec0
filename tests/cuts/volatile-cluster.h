// A local cluster whose virtual machines have the disks of tests/disks: at a power cut they lose
// their unflushed writes, and `talosctl cluster node kill` is a power cut.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/disks/disk-server.h"
#include "tests/harness/cluster.h"

namespace talos::cuts {

// The server of a cluster's disks, in a separate folder. It outlives the cluster.
class ServedDisks {
 protected:
  ServedDisks();
  ~ServedDisks();

  std::vector<std::string> with(std::vector<std::string> createFlags) const;

  std::string socketFolder;
  std::optional<disk::DiskServer> server;
};

class VolatileCluster : private ServedDisks, public harness::Cluster {
 public:
  VolatileCluster(const std::string& name, const std::vector<std::string>& createFlags,
                  double deadlineSeconds = 600);

  disk::DiskServer& disks() const { return *servedBy; }

  // Calls `talosctl cluster node kill`. Fails the test if the node is off.
  void kill(const std::string& node) const;

  // Cuts the power of a virtual machine at this write from now on; returns nullopt if the write did
  // not come in time, and the machine continues. A seed of 0 loses all unflushed writes
  // (MachineDisks::cut).
  std::optional<disk::Cut> killAtWrite(const std::string& node, uint64_t write, uint64_t seed,
                                       double withinSeconds) const;

  // Cuts the power at once.
  disk::Cut killNow(const std::string& node, uint64_t seed) const;

 private:
  disk::DiskServer* servedBy;  // also of one that is const
};

}  // namespace talos::cuts
