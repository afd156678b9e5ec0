// The process of a service as the supervisor sees it: a child of process 1, one health check, and
// the messages about its exit.
#pragma once

#include "machined/services/service-instance.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

class ChildBody final : public ServiceBody {
 public:
  // `definition` outlives it.
  ChildBody(Process1& process1, const ServiceDefinition& definition)
      : process1(process1), definition(definition) {}
  KJ_DISALLOW_COPY_AND_MOVE(ChildBody);

  // Process 1 still has it, as it said at the start of this brain.
  void adopt(int survivor) { pid = survivor; }
  // Process 1 reports an exit. It may be that of a predecessor's child, and it may come before the
  // answer to its spawn.
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
  kj::String program;              // that was started; one that was adopted has none
  kj::Maybe<Process1::Exit> last;  // that nobody has asked for yet
  kj::Maybe<kj::Own<kj::PromiseFulfiller<Status>>> waiting;
};

// Asks once, with the check's own timeout. None: it is well; otherwise what is wrong. Never
// rejects.
kj::Promise<kj::Maybe<kj::String>> checkOnce(HealthCheck& health, kj::Timer& timer);

// Of a status of waitpid(2): "exited with status 1", "killed by signal 9 (Killed)". `outOfMemory`:
// the kernel has killed it for memory; the limit that it had, 0 for none: "killed: out of memory".
kj::String describeExit(int status, kj::Maybe<uint64_t> outOfMemory = nullptr);

// The count of oom_kill in a cgroup's memory.events; 0 without it.
uint64_t memoryKillsOf(kj::StringPtr events);
// That of a cgroup below /sys/fs/cgroup, of either version; 0 when there is nobody to count.
uint64_t memoryKillsIn(kj::StringPtr cgroups, kj::StringPtr cgroup);

}  // namespace talos::machined
