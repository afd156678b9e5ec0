// runtime.TrustedRootsController: makes the bundle of public CAs that the config wants, at each
// change of the config after the boot has written the files of the config. What cannot be written
// is retried.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-runtime.h"
#include "machined/system/trusted-bundle.h"

namespace talos::machined {

class TrustedRootsController final : public Controller {
 public:
  using Read = kj::Function<kj::Maybe<kj::Vector<UserFile>>(Store&)>;  // nullptr: no config
  TrustedRootsController(UvLoop& uv, kj::Maybe<TrustedBundle&> bundle, Read read)
      : uv(uv), bundle(bundle), read(kj::mv(read)) {}

  kj::StringPtr name() const override { return "runtime.TrustedRootsController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  UvLoop& uv;
  kj::Maybe<TrustedBundle&> bundle;
  Read read;
};

// Makes the bundle of the published config without waiting for the controller. Resolves with the
// entries that are not in it; Unavailable if the boot has not written the files yet.
kj::Promise<kj::Array<kj::String>> applyTrustedRoots(ControllerDependencies& deps, Store& store);

}  // namespace talos::machined
