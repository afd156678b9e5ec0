// The wait for a file system to be mounted. Its journal is replayed first, which takes a slow disk
// minutes: giving up would end the boot, and the next one would begin anew.
#pragma once

#include <kj/function.h>

#include "common/base/within.h"

namespace talos::machined {

constexpr auto kMountTimeout = 15 * kj::MINUTES;

// Says each minute what is waited for, for ever.
kj::Promise<void> sayWhatIsMounted(kj::Timer& timer, kj::String node,
                                   kj::Function<void(kj::StringPtr line)>& say);

// `opening`, or an error after kMountTimeout. `say` has to outlive the promise.
template <typename T>
kj::Promise<T> untilMounted(kj::Timer& timer, kj::String node, kj::Promise<T> opening,
                            kj::Function<void(kj::StringPtr line)>& say) {
  auto saying = sayWhatIsMounted(timer, kj::str(node), say).eagerlyEvaluate(nullptr);
  return within(timer, kMountTimeout, kj::mv(opening),
                kj::str("mounting ", node, " timed out after ", kMountTimeout / kj::MINUTES,
                        " minutes"))
      .attach(kj::mv(saying));
}

}  // namespace talos::machined
