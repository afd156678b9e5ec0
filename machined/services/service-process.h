// The process of a service as a child of process 1, and the messages about the exit of a process.
#pragma once

#include "machined/services/service-instance.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

class ChildBody final : public ServiceBody {
 public:
  // `definition` must outlive the body.
  ChildBody(Process1& process1, const ServiceDefinition& definition)
      : process1(process1), definition(definition) {}
  KJ_DISALLOW_COPY_AND_MOVE(ChildBody);

  // Adopts a child that process 1 still has, as it reported at the start of this brain.
  void adopt(int survivor) { pid = survivor; }
  // Called when process 1 reports an exit. The exit may be that of a predecessor's child, and it
  // may come before the answer to a spawn.
  void exited(Process1::Exit exit);

  kj::StringPtr noun() const override { return "process"; }
  kj::String startedMessage(int pid) const override;
  kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)>) override { return kj::READY_NOW; }
  kj::Promise<Started> start(Environment environment, int output) override;
  kj::Promise<kj::Maybe<int>> find() override;
  kj::Promise<kj::Maybe<int>> ended() override;
  kj::Promise<void> signal(int number) override;
  kj::Promise<void> remove() override { return kj::READY_NOW; }  // process 1 has reaped it

 private:
  using Status = kj::Maybe<int>;
  Process1& process1;
  const ServiceDefinition& definition;
  int pid = 0;
  kj::String program;              // the started program; empty if adopted
  kj::Maybe<Process1::Exit> last;  // an exit that ended() has not returned yet
  kj::Maybe<kj::Own<kj::PromiseFulfiller<Status>>> waiting;
};

// Describes a status of waitpid(2): "exited with status 1", "killed by signal 9 (Killed)".
// `outOfMemory` is set if the kernel has killed the process for memory ("killed: out of memory");
// it is the memory limit, 0 for none.
kj::String describeExit(int status, kj::Maybe<uint64_t> outOfMemory = nullptr);

// Returns the count of oom_kill in a cgroup's memory.events; 0 without it.
uint64_t memoryKillsOf(kj::StringPtr events);
// Returns the same count of a cgroup below /sys/fs/cgroup, of either version; 0 if there is no
// count.
uint64_t memoryKillsIn(kj::StringPtr cgroups, kj::StringPtr cgroup);

}  // namespace talos::machined
