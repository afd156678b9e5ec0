// cri.RegistriesController: makes machine.registries into the files that containerd reads
// (machined/system/containerd-registries.h), at boot and whenever the config changes.
#pragma once

#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/containerd-registries.h"

namespace talos::machined {

class RegistriesController final : public Controller {
 public:
  using Render = kj::Function<kj::Maybe<kj::Vector<RegistryFile>>(Store&)>;  // nullptr: no config
  RegistriesController(UvLoop& uv, Render render, kj::StringPtr folder = kCriFolder)
      : uv(uv), render(kj::mv(render)), folder(kj::str(folder)) {}

  kj::StringPtr name() const override { return "cri.RegistriesController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  UvLoop& uv;
  Render render;
  kj::String folder;
};

}  // namespace talos::machined
