// A container as the body of a service (machined/services/containers/container-run.h), by the
// service's id.
//
// A containerd that is restarted meanwhile is waited for: a start is tried again for a minute (it
// goes on where an earlier try ended), a signal is sent as soon as it answers, and the exit of the
// task is awaited for as long as it takes. So nothing that containerd does ends a service or starts
// it twice; a crash of the brain does neither, because the next one finds the container by its id.
#pragma once

#include "machined/services/containers/container-run.h"
#include "machined/services/service-instance.h"

namespace talos::machined {

class ContainerBody final : public ServiceBody {
 public:
  // `spec` is asked before each start, for the state of the config then; it leaves out the id and
  // the environment.
  ContainerBody(Containerd& containerd, kj::StringPtr id, kj::Function<ContainerSpec()> spec)
      : containerd(containerd), id(kj::str(id)), name(kj::str("task ", id)), spec(kj::mv(spec)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ContainerBody);

  kj::StringPtr noun() const override { return name; }
  kj::String startedMessage(int pid) const override;
  // Pulls the image, unless it is there (needImage()).
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
  uint64_t life = 0;  // counts those that have ended: a signal is for one of them
};

// containerd's exit status as that of wait(2): 128 and more is a signal.
int waitStatus(unsigned exitStatus);

}  // namespace talos::machined
