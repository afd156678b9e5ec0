#include "talosctl/upgrade-k8s/await-state.h"

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

bool isFinal(const kj::Exception& e) {
  switch (kindOf(e)) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kPermissionDenied:
    case ErrorKind::kUnauthenticated:
    case ErrorKind::kUnimplemented:
    case ErrorKind::kFailedPrecondition:
      return true;
    default:
      return false;
  }
}

}  // namespace

kj::Promise<void> awaitState(kj::Timer& timer, UpgradeLines& lines, kj::String what,
                             AwaitTimes times, kj::Function<kj::Promise<kj::String>()> attempt) {
  auto until = timer.now() + times.limit;
  kj::Vector<kj::String> reported;
  for (;;) {
    kj::String missing;
    try {
      missing = co_await attempt();
    } catch (...) {
      auto e = kj::getCaughtExceptionAsKj();
      if (isFinal(e)) fail(kindOf(e), kj::str(what, ": ", messageOf(e)));
      missing = messageOf(e);
    }
    if (missing.size() == 0) co_return;
    bool known = false;
    for (auto& text : reported) known = known || text == missing;
    if (!known) {
      lines.retrying(missing);
      reported.add(kj::str(missing));
    }
    if (timer.now() >= until) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("timed out after ", durationText(times.limit), " waiting for ", what, ": ",
                   missing, "; fix that, and run the same command again: it continues from here"));
    }
    co_await timer.atTime(kj::min(timer.now() + times.interval, until));
  }
}

}  // namespace talos::talosctl
