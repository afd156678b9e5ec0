#include "talosctl/drain/drain-lines.h"

#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

void DrainLines::note(kj::StringPtr text) {
  console.err(kj::str(printableText(text), "\n"));
}

void DrainLines::event(kj::StringPtr kind, kj::StringPtr node, kube::Json more) {
  if (!json) return;
  kube::Json out{{"event", kind.cStr()}, {"node", node.cStr()}};
  if (dryRun) out["dryRun"] = true;
  out.update(more);
  console.out(kj::str(kube::writeJson(out), "\n"));
}

void DrainLines::node(kj::StringPtr node, kj::StringPtr result) {
  event("node", node, {{"result", result.cStr()}});
  auto line = kj::str("node/", node, " ", result, dryRun ? " (dry run)" : "");
  if (json) {
    note(line);
  } else {
    console.out(kj::str(printableText(line), "\n"));
  }
}

void DrainLines::failed(kj::StringPtr node, kj::StringPtr error) {
  event("node", node, {{"result", "failed"}, {"message", error.cStr()}});
  note(kj::str("error: unable to drain node \"", node, "\": ", error));
}

void DrainLines::warning(kj::StringPtr node, kj::StringPtr text,
                         kj::ArrayPtr<const kj::String> pods) {
  auto list = kube::Json::array();
  for (auto& pod : pods) list.push_back(pod.cStr());
  event("warning", node, {{"message", text.cStr()}, {"pods", kj::mv(list)}});
  note(kj::str("Warning: ", text, ": ", kj::strArray(pods, ", ")));
}

void DrainLines::pod(kj::StringPtr node, kj::StringPtr pod, kj::StringPtr result,
                     kj::StringPtr line, kube::Json more) {
  kube::Json out{{"pod", pod.cStr()}, {"result", result.cStr()}};
  out.update(more);
  event("pod", node, kj::mv(out));
  if (line.size() > 0 && !console.errIsTerminal()) {
    note(kj::str(line, dryRun ? " (dry run)" : ""));
  }
}

void DrainLines::progress(kj::StringPtr node, kj::StringPtr text) {
  if (!console.errIsTerminal()) return;
  if (names.size() == 0 || names[0] != node) {
    names = kj::arr(kj::str(node));
    live = kj::heap<Progress>(console, names);
  }
  KJ_ASSERT_NONNULL(live)->set(0, text);
}

}  // namespace talos::talosctl
