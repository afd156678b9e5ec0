// runtime.KernelSettingsController: applies changes of machine.kernel, sysfs and sysctls and of the
// drivers of devices at once, after the boot's tasks have set the first three. A setting that the
// kernel refused is retried, since a module or a device may bring the file.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/kernel-settings.h"

namespace talos::machined {

class KernelSettingsController final : public Controller {
 public:
  using Read = kj::Function<kj::Maybe<WantedKernel>(Store&)>;  // nullptr: no config
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

// Applies the published config's kernel settings, its watchdog included, without waiting for the
// controllers' next attempts. Resolves with the settings that the kernel does not have as
// configured; Unavailable if the boot has not begun to apply them.
kj::Promise<kj::Array<kj::String>> applyKernelSettings(ControllerDependencies& deps, Store& store);

}  // namespace talos::machined
