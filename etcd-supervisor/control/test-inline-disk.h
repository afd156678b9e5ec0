// For tests on a virtual clock: a disk that takes no time.
#pragma once

#include "common/base/disk-thread.h"

namespace talos::supervisor {

struct InlineDisk final : DiskQueue {
  void add(kj::Function<void()> work) override { work(); }
};

}  // namespace talos::supervisor
