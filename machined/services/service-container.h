// A container as the body of a service (machined/services/containers/container-run.h), with the
// service's ID.
//
// The body waits for a containerd that is being restarted: it retries a start for a minute (each
// try continues where the previous one ended), sends a signal as soon as containerd answers, and
// waits for the exit of the task without limit. So nothing that containerd does ends a service or
// starts it twice. Neither does a crash of the brain, because the next brain finds the container by
// its ID.
#pragma once

#include "machined/services/containers/container-run.h"
#include "machined/services/service-instance.h"

namespace talos::machined {

class ContainerBody final : public ServiceBody {
 public:
  // `spec` is called before each start, for the present state of the config; it leaves out the ID.
  // Its environment comes after that of the definition.
  ContainerBody(Containerd& containerd, kj::StringPtr id, kj::Function<ContainerSpec()> spec)
      : containerd(containerd), id(kj::str(id)), name(kj::str("task ", id)), spec(kj::mv(spec)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ContainerBody);

  kj::StringPtr noun() const override { return name; }
  kj::String startedMessage(int pid) const override;
  // Pulls the image unless the node has it (needImage()).
  kj::Promise<void> prepare(kj::Function<void(kj::StringPtr)> note) override;
  kj::Promise<Started> start(Environment environment, int output) override;
  kj::Promise<kj::Maybe<int>> find() override;
  kj::Promise<kj::Maybe<int>> ended() override;
  kj::Promise<void> signal(int number) override;
  kj::Promise<void> remove() override;

 private:
  Containerd& containerd;
  kj::String id, name;
  kj::Function<ContainerSpec()> spec;
  uint64_t life = 0;  // counts removed instances: a signal is for one instance
};

// Converts containerd's exit status to that of wait(2): 129 to 192 are signals.
int waitStatus(unsigned exitStatus);

}  // namespace talos::machined
