#include "machined/crashes/program-stacks.h"

#include <signal.h>

#include "common/base/error.h"
#include "common/crash/crash-handler.h"

namespace talos::machined {
namespace {

// The program's write causes no event, so the page is polled.
constexpr auto kLook = 5 * kj::MILLISECONDS;

}  // namespace

kj::Promise<crash::CrashRecord> ProgramStacks::of(kj::StringPtr name) {
  auto service = kj::str(name);
  if (!pages.has(service)) {
    fail(
        ErrorKind::kFailedPrecondition,
        kj::str("service \"", service, "\" is not a program of this system: its stack is its own"));
  }
  if (!looking.insert(service.cStr()).second) {
    fail(ErrorKind::kUnavailable, kj::str("somebody else looks at ", service, "; try again"));
  }
  KJ_DEFER(looking.erase(service.cStr()));
  (void)pages.takeStack(service);  // of an abandoned request
  if (service == self) {
    KJ_SYSCALL(raise(crash::kShowStack));
  } else {
    process1.signal(service, crash::kShowStack);
  }
  auto until = timer.now() + kDeadline;
  for (;;) {
    auto record = pages.takeStack(service);
    KJ_IF_MAYBE (found, record) co_return kj::mv(*found);
    if (timer.now() >= until) break;
    co_await timer.afterDelay(kLook);
  }
  fail(ErrorKind::kDeadlineExceeded,
       kj::str(service, " did not write its stack within ", kDeadline,
               ": it is stopped, waits in the kernel, or has just started"));
}

}  // namespace talos::machined
