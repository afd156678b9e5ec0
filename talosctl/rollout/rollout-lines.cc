#include "talosctl/rollout/rollout-lines.h"

#include "common/base/lines.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

void RolloutLines::line(kj::StringPtr text) {
  if (json) return note(text);
  console.out(kj::str(printableText(text), "\n"));
}

void RolloutLines::text(kj::StringPtr lines) {
  for (auto one : Lines(lines)) line(kj::heapString(one));
}

void RolloutLines::note(kj::StringPtr text) {
  console.err(kj::str(printableText(text), "\n"));
}

void RolloutLines::question(kj::StringPtr text) {
  console.err(text);
}

void RolloutLines::event(const kube::Json& event) {
  if (json) console.out(kj::str(kube::writeJson(event), "\n"));
}

kj::String quotedList(kj::ArrayPtr<const kj::String> addresses) {
  auto quoted = KJ_MAP(address, addresses) {
    return kj::str("\"", address, "\"");
  };
  return kj::str("[", kj::strArray(quoted, " "), "]");
}

}  // namespace talos::talosctl
