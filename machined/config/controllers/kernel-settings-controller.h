// runtime.KernelSettingsController: applies changes of machine.kernel, sysfs and sysctls at once,
// after the boot's tasks have set them first. What the kernel refused for now is retried, since a
// module or a device may bring the file.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/kernel-settings.h"

namespace talos::machined {

class KernelSettingsController final : public Controller {
 public:
  using Read = kj::Function<kj::Maybe<WantedKernel>(Store&)>;  // none: no config
  using Warn = kj::Function<void(kj::StringPtr)>;
  KernelSettingsController(UvLoop& uv, KernelSettings& settings, Read read, Warn warn)
      : uv(uv), settings(settings), read(kj::mv(read)), warn(kj::mv(warn)) {}

  kj::StringPtr name() const override { return "runtime.KernelSettingsController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  UvLoop& uv;
  KernelSettings& settings;
  Read read;
  Warn warn;

  kj::Promise<void> follow(WantedKernel wanted);
};

// Sets what the published config asks of the kernel, its watchdog included, without waiting for the
// controllers' next attempts.
// Resolves with what is not as it was asked for; Unavailable when the boot has not begun with it.
kj::Promise<kj::Array<kj::String>> applyKernelSettings(ControllerDependencies& deps, Store& store);

}  // namespace talos::machined
