#include "talosctl/client/question.h"

#include "common/base/error.h"

namespace talos::talosctl {

bool canAsk(Invocation& call, kj::StringPtr what) {
  auto& console = call.deps.console;
  if (console.inIsTerminal() == console.errIsTerminal()) return console.errIsTerminal();
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot ask ", what, ": ", console.errIsTerminal() ? "standard input" : "stderr",
               " is not a terminal; use --yes"));
}

}  // namespace talos::talosctl
