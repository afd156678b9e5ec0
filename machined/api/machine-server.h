// The Machine capability: facts about the machine, and the calls that end its life.
//
// Facts are read when they are asked for and nothing is kept, so there is nothing to lose in a
// crash. Reading happens on the pool for reads with a deadline: a mount whose server is gone costs
// its caller a DeadlineExceeded and the loop nothing. What a client may do at once is bounded
// (client-call-limits.h). What the machine decides (its stage, how it goes
// down, which services run) comes from functions that machined's main passes in.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/container-memory.h"
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
  kj::Date local, remote;  // at the same moment
};

struct ResetFact {
  kj::String label, device;
  uint64_t bytes;
};
struct ResetFacts {
  kj::String disk;  // empty in a container
  kj::Vector<ResetFact> targets;
  // Of etcd's cluster that the node is in; none: in none, or not known why.
  kj::Maybe<capnp::Response<rpc::EtcdSupervisor::OutlookResults>> etcd = nullptr;
  kj::String etcdProblem = nullptr;
};

// The decisions of the machine behind the calls. Outlives every MachineServer.
class MachineOperations {
 public:
  virtual ~MachineOperations() noexcept(false) = default;

  // Resolve when the sequence is accepted, before it ends anything; reject when it is not.
  virtual kj::Promise<void> reboot() = 0;
  virtual kj::Promise<void> shutdown() = 0;
  virtual void fillStatus(rpc::Status::Builder out) = 0;
  virtual kj::Vector<ServiceCgroup> runningServices() = 0;
  // Asks a time server once; "": the one that the clock follows. Ends by itself.
  virtual kj::Promise<TimeAnswer> askTime(kj::String server) = 0;
  // machine.ca of the config with its key; none on a machine that has not both.
  virtual kj::Maybe<pki::CertificateAndKey> authority() = 0;
  // The partitions that a reset with these labels erases; rejects if it cannot be.
  virtual kj::Promise<ResetFacts> previewReset(kj::Vector<kj::String> labels, bool graceful) = 0;
  // Resolves when it is promised, before it ends anything.
  virtual kj::Promise<void> reset(kj::Vector<kj::String> labels, bool graceful, bool reboot) = 0;
  // A kubeconfig that was made for this call; rejects on a machine that cannot make one.
  virtual kj::Promise<pki::Pem> kubeconfig() = 0;
  // Controllers of this process and daemons, sorted by name.
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
  uint64_t uptimeMs()
      const;  // of the kernel; of process 1 in a container, whose kernel is its host's
  template <typename F>
  auto onPool(kj::StringPtr doing, F&& work) -> kj::Promise<decltype(work())>;
};

}  // namespace talos::machined
