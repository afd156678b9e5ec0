// Waits for a file system to be mounted. Its journal is replayed first, which takes minutes on a
// slow disk: a boot that gave up would end, and the next boot would start the replay again.
#pragma once

#include <kj/function.h>

#include "common/base/within.h"

namespace talos::machined {

constexpr auto kMountTimeout = 15 * kj::MINUTES;

// Reports each minute, for ever, that `node` is still being mounted.
kj::Promise<void> sayWhatIsMounted(kj::Timer& timer, kj::String node,
                                   kj::Function<void(kj::StringPtr line)>& say);

// Resolves with `opening`, or rejects after kMountTimeout. `say` must outlive the promise.
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
