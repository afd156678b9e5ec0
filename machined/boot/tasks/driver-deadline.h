// Limits how long the boot waits for work that a driver or a disk can hold up: loading drivers, and
// applying the settings of the config.
//
// The work keeps its thread until the kernel answers; only the boot stops waiting. A node whose
// boot continues can be examined and repaired; a node that waits without a line cannot. A module
// that hangs has a shorter deadline (machined/confined/kernel-helper/kernel-client.h), so that the
// work normally ends first and names the module.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "common/base/error.h"
#include "common/base/within.h"

namespace talos::machined {

constexpr auto kDriverDeadline = 10 * kj::MINUTES;

// Resolves when `work` does, or after kDriverDeadline, which is reported as a warning: "`what` has
// not ended within 600 s". Rejects if `work` fails.
inline kj::Promise<void> untilDriverDeadline(kj::Timer& timer, kj::StringPtr what,
                                             kj::Promise<void> work,
                                             kj::Function<void(kj::StringPtr line)> report) {
  auto late = kj::str(what, " has not ended within ", kDriverDeadline / kj::SECONDS,
                      " s; the boot continues without it");
  return within(timer, kDriverDeadline, kj::mv(work), kj::mv(late))
      .catch_([report = kj::mv(report)](kj::Exception&& e) mutable {
        if (kindOf(e) != ErrorKind::kDeadlineExceeded) kj::throwFatalException(kj::mv(e));
        report(kj::str("warning: ", messageOf(e)));
      });
}

}  // namespace talos::machined
