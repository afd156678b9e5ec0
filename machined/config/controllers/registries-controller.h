// cri.RegistriesController: makes machine.registries, machine.baseRuntimeSpecOverrides, and the
// user's part of containerd's configuration, into the files that containerd reads
// (machined/system/containerd-registries.h), at boot and whenever the config changes.
//
// If the user's part cannot be merged, the files are written without it, so that containerd starts,
// and the controller fails: it is run again, and containerd reads the part when it starts again.
#pragma once

#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/containerd-registries.h"

namespace talos::machined {

class RegistriesController final : public Controller {
 public:
  struct Rendered {
    kj::Vector<RegistryFile> files;
    kj::Vector<kj::String> parts;  // of the user
  };
  using Render = kj::Function<kj::Maybe<Rendered>(Store&)>;  // nullptr: no config
  // Merges the user's parts into that of the system (ForeignBytes::containerd).
  using Merge = kj::Function<kj::Promise<kj::String>(kj::StringPtr system,
                                                     kj::ArrayPtr<const kj::String> parts)>;
  RegistriesController(UvLoop& uv, Render render, Merge merge, kj::StringPtr folder = kCriFolder)
      : uv(uv), render(kj::mv(render)), merge(kj::mv(merge)), folder(kj::str(folder)) {}

  kj::StringPtr name() const override { return "cri.RegistriesController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  UvLoop& uv;
  Render render;
  Merge merge;
  kj::String folder;

  kj::Promise<void> write(Rendered rendered);
};

}  // namespace talos::machined
