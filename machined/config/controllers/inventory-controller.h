// runtime.InventoryController: publishes the machine's hardware and platform as resources. Hardware
// is found before this system runs and is read once. A node in a container sees the host's
// hardware, which is not the node's, and publishes none.
#pragma once

#include "machined/confined/sandbox/landlock.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

struct InventoryPaths {
  kj::StringPtr sys = "/sys"_kj, proc = "/proc"_kj;
};

class InventoryController final : public Controller {
 public:
  // `landlock` is the kernel's version of Landlock.
  InventoryController(UvLoop& uv, kj::StringPtr platform, InventoryPaths paths = {},
                      int landlock = confine::Landlock::version())
      : uv(uv), platform(platform), paths(paths), landlock(landlock) {}

  kj::StringPtr name() const override { return "runtime.InventoryController"; }
  kj::Array<Input> inputs() const override { return nullptr; }
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  UvLoop& uv;
  kj::StringPtr platform;
  InventoryPaths paths;
  int landlock;
};

}  // namespace talos::machined
