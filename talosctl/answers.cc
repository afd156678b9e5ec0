#include "talosctl/answers.h"

#include "talosctl/text.h"

namespace talos::talosctl {

kj::String describe(const Failure& failure) {
  return kj::str(printableText(failure.node), ": ", printableText(messageOf(failure.cause)));
}

int conclude(Invocation& call, kj::ArrayPtr<const Failure> failures, size_t good, Partial partial) {
  if (failures.size() == 0) return 0;
  auto all = kj::strArray(KJ_MAP(f, failures) { return describe(f); }, "\n  ");
  bool failed = good == 0 || partial == Partial::kIsFailure;
  call.err(kj::str(
      failed ? "error: " : "WARNING: ",
      failures.size() == 1 ? kj::str(all) : kj::str(failures.size(), " nodes failed:\n  ", all),
      "\n"));
  return failed ? 1 : 0;
}

}  // namespace talos::talosctl
