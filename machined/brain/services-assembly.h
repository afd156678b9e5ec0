// Assembly of the services: the supervisor, the time service, the client of containerd and the
// services of system extensions.
#pragma once

#include "machined/brain/brain-core.h"
#include "machined/crashes/crash-reports.h"
#include "machined/crashes/program-stacks.h"
#include "machined/extensions/extension-services.h"
#include "machined/services/containers/containerd-connection.h"
#include "machined/services/supervisor.h"
#include "machined/system/time/kernel-clock.h"
#include "machined/system/time/time-service.h"

namespace talos::machined {

// The switches in the pages of services.
class PageSwitches final : public DebugSwitches {
 public:
  explicit PageSwitches(ServicePages& pages) : pages(pages) {}
  rpc::LogLevel level(kj::StringPtr service) const override;
  void setLevel(kj::StringPtr service, rpc::LogLevel level) override;
  bool keepsCores(kj::StringPtr service) const override { return pages.keepsCores(service); }
  void setKeepsCores(kj::StringPtr service, bool keep) override {
    pages.setKeepsCores(service, keep);
  }

 private:
  ServicePages& pages;
};

class ServicesAssembly {
 public:
  // `stateMounted` returns true if STATE is writable.
  ServicesAssembly(BrainCore& core, kj::Function<bool()> stateMounted)
      : core(core), stateMounted(kj::mv(stateMounted)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ServicesAssembly);

  void addControllers();

 private:
  BrainCore& core;
  kj::Function<bool()> stateMounted;
  PageSwitches switches{core.pages};
  UdpTimeNetwork timeNetwork{core.io.unixEventPort, core.foreign};

 public:
  KernelClock kernelClock{core.uv, KJ_BIND_METHOD(core.announcements, time)};
  TimeService time{supervisor, timeDependencies()};  // has a service, which stops before it
  CrashReports crashes{crashDependencies()};
  ProgramStacks stacks{core.pages, core.process1, core.timer, "machined"};
  Supervisor supervisor{supervisorDependencies()};
  Containerd containerd{*core.io.lowLevelProvider, core.timer};
  kj::Own<ImageExtensions> imageExtensions = readExtensions();
  ExtensionServices extensions{extensionDependencies()};

 private:
  TimeFollower::Dependencies timeDependencies();
  CrashReports::Dependencies crashDependencies();
  kj::Maybe<kj::String> keepCrash(kj::StringPtr service);
  Supervisor::Dependencies supervisorDependencies();
  kj::Array<kj::String> environment(kj::StringPtr service, kj::ArrayPtr<const kj::String> own);
  kj::Own<Controller> timeController();
  kj::Vector<kj::String> extensionsNotLoaded();
  kj::Own<ImageExtensions> readExtensions();
  ExtensionServices::Dependencies extensionDependencies();
  kj::Own<Controller> extensionController();
};

}  // namespace talos::machined
