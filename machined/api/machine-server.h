// Serves the Machine capability: facts about the machine, and the calls that end its life.
//
// Facts are read for each call, so a crash loses no state. Reading happens on the pool for reads
// with a deadline: a mount whose server is gone costs its caller a DeadlineExceeded and the loop
// nothing. The number of a client's concurrent calls is bounded (client-call-limits.h). The
// machine's decisions (its stage, how it shuts down, which services run) come from functions that
// machined's main passes in.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/node-layout.h"
#include "common/tls/pki.h"
#include "machined/api/machine-facts.h"
#include "machined/process1/client-call-limits.h"
#include "machined/process1/read-pool.h"
#include "machined/resources/controller-dependencies.h"
#include "rpc/local.capnp.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

// Facts that were fixed when the program was built or the machine was installed.
struct MachineIdentity {
  kj::String tag, sha, built, compiler;
  kj::String platform;  // metal, container ...
  kj::String mode;      // metal, cloud, container
};

struct TimeAnswer {
  kj::String server;
  kj::Date local, remote;  // both clocks at the same moment
};

struct ResetFact {
  kj::String label, device;
  uint64_t bytes;
};
struct ResetFacts {
  kj::String disk;  // empty in a container
  kj::Vector<ResetFact> targets;
  // Outlook of the node's etcd cluster; nullptr if the node is in none, or if the outlook is not
  // known.
  kj::Maybe<capnp::Response<rpc::EtcdSupervisor::OutlookResults>> etcd = nullptr;
  kj::String etcdProblem = nullptr;
};

// The operations of the machine that serve the calls. Must outlive every MachineServer.
class MachineOperations {
 public:
  virtual ~MachineOperations() noexcept(false) = default;

  // Resolve when the sequence is accepted, before it ends anything; reject if it is refused.
  virtual kj::Promise<void> reboot() = 0;
  virtual kj::Promise<void> shutdown() = 0;
  virtual void fillStatus(rpc::Status::Builder out) = 0;
  virtual kj::Vector<ServiceCgroup> runningServices() = 0;
  // Queries a time server once; "": the server that the clock follows. Has its own timeout.
  virtual kj::Promise<TimeAnswer> queryTime(kj::String server) = 0;
  // Returns machine.ca of the config with its key; nullptr on a machine that lacks either.
  virtual kj::Maybe<pki::CertificateAndKey> authority() = 0;
  // Returns the partitions that a reset with these labels erases; rejects if the reset is not
  // possible.
  virtual kj::Promise<ResetFacts> previewReset(kj::Vector<kj::String> labels, bool graceful) = 0;
  // Resolves when the reset is recorded, before it ends anything.
  virtual kj::Promise<void> reset(kj::Vector<kj::String> labels, bool graceful, bool reboot) = 0;
  // Returns a kubeconfig that was made for this call; rejects on a machine that cannot make one.
  virtual kj::Promise<pki::Pem> kubeconfig() = 0;
  // Returns controllers of this process and daemons, sorted by name.
  virtual kj::Vector<ControllerLinks> dependencies() = 0;
  virtual void fillSamples(uint64_t lastMs, rpc::Machine::SamplesResults::Builder out) = 0;
};

struct MachinePaths {
  kj::StringPtr proc = "/proc";
  kj::StringPtr cgroups = "/sys/fs/cgroup";
  kj::StringPtr sys = "/sys";
  kj::StringPtr memory = kMemoryOfContainer;
};

class MachineServer final : public rpc::Machine::Server {
 public:
  MachineServer(ReadPool& pool, kj::Timer& timer, MachineIdentity identity,
                MachineOperations& operations, kj::Own<ClientCalls> calls, MachinePaths paths = {});

  kj::Promise<void> version(VersionContext context) override;
  kj::Promise<void> status(StatusContext context) override;
  kj::Promise<void> memory(MemoryContext context) override;
  kj::Promise<void> mounts(MountsContext context) override;
  kj::Promise<void> processes(ProcessesContext context) override;
  kj::Promise<void> stats(StatsContext context) override;
  kj::Promise<void> reboot(RebootContext context) override;
  kj::Promise<void> shutdown(ShutdownContext context) override;
  kj::Promise<void> time(TimeContext context) override;
  kj::Promise<void> clientCertificate(ClientCertificateContext context) override;
  kj::Promise<void> previewReset(PreviewResetContext context) override;
  kj::Promise<void> reset(ResetContext context) override;
  kj::Promise<void> kubeconfig(KubeconfigContext context) override;
  kj::Promise<void> netstat(NetstatContext context) override;
  kj::Promise<void> cgroups(CgroupsContext context) override;
  kj::Promise<void> dependencies(DependenciesContext context) override;
  kj::Promise<void> counters(CountersContext context) override;
  kj::Promise<void> samples(SamplesContext context) override;

 private:
  ReadPool& pool;
  kj::Timer& timer;
  MachineIdentity identity;
  MachineOperations& operations;
  kj::Own<ClientCalls> calls;
  MachinePaths paths;

  kj::String bootId() const;
  uint64_t uptimeMs() const;  // of the kernel; in a container of process 1
  template <typename F>
  auto onPool(kj::StringPtr doing, F&& work) -> kj::Promise<decltype(work())>;
};

}  // namespace talos::machined
