// Limits how long a promise may take.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "common/base/error.h"
#include "common/base/waits.h"

namespace talos {

// Returns the result of `promise`, or fails after `deadline` with the error text `what`, which
// names the event that did not come. Until then it is one of the program's waits (waits.h).
template <typename T>
kj::Promise<T> within(kj::Timer& timer, kj::Duration deadline, kj::Promise<T> promise,
                      kj::String what, ErrorKind kind = ErrorKind::kDeadlineExceeded) {
  Wait wait(what);
  return promise
      .exclusiveJoin(timer.afterDelay(deadline).then(
          [what = kj::mv(what), kind]() -> kj::Promise<T> { return error(kind, what); }))
      .attach(kj::mv(wait));
}

}  // namespace talos
