#include "talosctl/cli/request-note.h"

namespace talos::talosctl {

kj::String requestNote(const Dependencies& deps, const kj::Exception& e) {
  if (!deps.requested || deps.requestId.size() == 0) return kj::String();
  auto kind = kindOf(e);
  if (kind != ErrorKind::kInternal && kind != ErrorKind::kDeadlineExceeded) return kj::String();
  return kj::str("see \"talosctl logs machined --grep ", deps.requestId, "\"\n");
}

}  // namespace talos::talosctl
