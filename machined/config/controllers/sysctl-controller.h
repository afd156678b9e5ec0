// runtime.SysctlController: applies changes of machine.sysctls at once, after the boot task has set
// them first. What the kernel refused is retried, since a module may bring the parameter.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/sysctls.h"

namespace talos::machined {

class SysctlController final : public Controller {
 public:
  using Read = kj::Function<kj::Maybe<kj::Vector<WantedSysctl>>(Store&)>;  // none: no config
  using Warn = kj::Function<void(kj::StringPtr)>;
  SysctlController(UvLoop& uv, UserSysctls& sysctls, Read read, Warn warn)
      : uv(uv), sysctls(sysctls), read(kj::mv(read)), warn(kj::mv(warn)) {}

  kj::StringPtr name() const override { return "runtime.SysctlController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  UvLoop& uv;
  UserSysctls& sysctls;
  Read read;
  Warn warn;

  kj::Promise<void> follow(kj::Vector<WantedSysctl> wanted);
};

// Sets what the published config asks for, without waiting for the controller's next attempt.
// Resolves with what the kernel refused; Unavailable when the boot has not begun with it.
kj::Promise<kj::Array<kj::String>> applySysctls(ControllerDependencies& deps, Store& store);

}  // namespace talos::machined
