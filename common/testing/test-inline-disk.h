// A disk that takes no time, for tests on a virtual clock.
#pragma once

#include "common/base/disk-thread.h"

namespace talos {

struct InlineDisk final : DiskQueue {
  void add(kj::Function<void()> work) override { work(); }
};

}  // namespace talos
