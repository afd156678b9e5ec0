#include "talosctl/rollout/rollout-lines.h"

#include "common/base/lines.h"
#include "common/kube/json-yaml.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

EventFormat eventFormatNamed(kj::StringPtr output) {
  return output == "json"   ? EventFormat::kJson
         : output == "yaml" ? EventFormat::kYaml
                            : EventFormat::kText;
}

kj::String renderEvent(const kube::Json& event, EventFormat format) {
  switch (format) {
    case EventFormat::kText:
      return kj::String();
    case EventFormat::kJson:
      return kj::str(kube::writeJson(event), "\n");
    case EventFormat::kYaml:
      return kj::str("---\n", kube::writeYaml(event, 4));
  }
  KJ_UNREACHABLE;
}

void RolloutLines::line(kj::StringPtr text) {
  if (format != EventFormat::kText) return note(text);
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
  if (format != EventFormat::kText) console.out(renderEvent(event, format));
}

kj::String quotedList(kj::ArrayPtr<const kj::String> addresses) {
  auto quoted = KJ_MAP(address, addresses) {
    return kj::str("\"", address, "\"");
  };
  return kj::str("[", kj::strArray(quoted, " "), "]");
}

}  // namespace talos::talosctl
