// Assembly of the services: the supervisor, the time service and the client of containerd.
#pragma once

#include "machined/brain/brain-core.h"
#include "machined/services/containers/containerd-connection.h"
#include "machined/services/supervisor.h"
#include "machined/system/time/kernel-clock.h"
#include "machined/system/time/time-service.h"

namespace talos::machined {

class ServicesAssembly {
 public:
  explicit ServicesAssembly(BrainCore& core) : core(core) {}
  KJ_DISALLOW_COPY_AND_MOVE(ServicesAssembly);

  void addControllers();

 private:
  BrainCore& core;
  UdpTimeNetwork timeNetwork{core.io.unixEventPort, core.foreign};

 public:
  KernelClock kernelClock{core.uv, KJ_BIND_METHOD(core.announcements, time)};
  TimeService time{supervisor, timeDependencies()};  // has a service, which stops before it
  Supervisor supervisor{supervisorDependencies()};
  Containerd containerd{*core.io.lowLevelProvider, core.timer};

 private:
  TimeFollower::Dependencies timeDependencies();
  Supervisor::Dependencies supervisorDependencies();
  kj::Array<kj::String> environment(kj::StringPtr service, kj::ArrayPtr<const kj::String> own);
  kj::Own<Controller> timeController();
};

}  // namespace talos::machined
