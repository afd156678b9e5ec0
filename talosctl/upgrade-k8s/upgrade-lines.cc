#include "talosctl/upgrade-k8s/upgrade-lines.h"

#include "common/base/date.h"
#include "common/kube/json.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

void UpgradeLines::line(kj::StringPtr text) {
  auto whole = kj::str(printableText(text), "\n");
  if (json) {
    console.err(whole);
  } else {
    console.out(whole);
  }
}

void UpgradeLines::text(kj::StringPtr lines) {
  while (lines.size() > 0) {
    auto end = lines.findFirst('\n').orDefault(lines.size());
    line(kj::heapString(lines.slice(0, end)));
    lines = lines.slice(kj::min(end + 1, lines.size()));
  }
}

void UpgradeLines::note(kj::StringPtr text) {
  console.err(kj::str(printableText(text), "\n"));
}

void UpgradeLines::question(kj::StringPtr text) {
  console.err(text);
}

void UpgradeLines::retrying(kj::StringPtr text) {
  // 2021-03-09T19:55:01Z, converted to the form of the original's log.
  auto date = dateText(clock.now());
  for (char& c : date) {
    if (c == '-') c = '/';
    if (c == 'T') c = ' ';
  }
  note(kj::str(date.slice(0, date.size() - 1), " retrying error: ", text));
}

void UpgradeLines::done(kj::StringPtr component, kj::StringPtr node, kj::StringPtr image,
                        kj::StringPtr result, kj::StringPtr message) {
  if (!json) return;
  kube::Json line{{"component", component.cStr()}};
  if (node.size() > 0) line["node"] = node.cStr();
  line["image"] = image.cStr();
  line["result"] = result.cStr();
  if (message.size() > 0) line["message"] = message.cStr();
  console.out(kj::str(kube::writeJson(line), "\n"));
}

void UpgradeLines::object(kj::StringPtr name, kj::StringPtr result) {
  if (!json) return;
  kube::Json line{{"component", "manifests"}, {"object", name.cStr()}, {"result", result.cStr()}};
  console.out(kj::str(kube::writeJson(line), "\n"));
}

}  // namespace talos::talosctl
