// The workloads of a random day: what runs beside its operations, and what judges it.
//
// A text names them with their settings (default.day). Each is set up on the new cluster, started,
// and checked after each bout, when the cluster is well.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/day/day-cluster.h"
#include "tests/day/oracles/secret-oracle.h"
#include "tests/day/plan/day-text.h"
#include "tests/day/registers/register-clients.h"

namespace talos::day {

// Objects that workloads share.
struct DayContext {
  DayCluster& nodes;
  uint64_t seed = 0;
  RegisterClients* clients = nullptr;  // of the workload "registers"
  SecretOracle secrets = {};
};

class WorkloadRun {
 public:
  virtual ~WorkloadRun() noexcept(false) = default;
  // Waits until the cluster is as this workload needs it. Returns a problem, or nothing.
  virtual std::string setup() { return ""; }
  virtual void start() {}
  // Waits until these nodes are well; without nodes, until all are.
  virtual std::string converge(const std::vector<unsigned>&) { return ""; }
  // `at`: seconds since the start.
  virtual std::string check(double at, bool isEndOfRound) = 0;
  // Returns a line about the whole day.
  virtual std::string summary() const { return ""; }
};

const KnownWorkloads& knownWorkloads();

// Returns the workloads in the order of the text; `context` outlives them.
std::vector<std::unique_ptr<WorkloadRun>> makeWorkloads(const Day& day, DayContext& context);

}  // namespace talos::day
