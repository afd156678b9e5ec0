#include "talosctl/config/config-resource.h"

#include "common/base/error.h"
#include "common/yaml/yaml.h"

namespace talos::talosctl {

namespace {

using codec::YamlNode;

constexpr kj::StringPtr kType = "MachineConfigs.config.talos.dev"_kj;

const YamlNode* valueOf(const YamlNode& node, kj::StringPtr key) {
  for (auto& entry : node.entries) {
    if (entry.key == key) return entry.value;
  }
  return nullptr;
}

// Returns the spec of the resource; nullptr if the node is something else.
const YamlNode* specOf(const YamlNode& node) {
  auto* metadata = valueOf(node, "metadata");
  auto* spec = valueOf(node, "spec");
  if (metadata == nullptr || spec == nullptr) return nullptr;
  auto* type = valueOf(*metadata, "type");
  return type != nullptr && type->text.startsWith(kType) ? spec : nullptr;
}

}  // namespace

kj::Maybe<kj::String> configInResource(kj::ArrayPtr<const char> text, kj::StringPtr file) {
  Problems problems;
  codec::YamlStream stream(text, file, problems);
  if (hasErrors(problems) || stream.documents().size() == 0) return nullptr;
  auto* spec = specOf(*stream.documents()[0]);
  if (spec == nullptr) return nullptr;
  if (stream.documents().size() > 1) {
    fail(ErrorKind::kInvalidArgument, kj::str(file, ": the configs of ", stream.documents().size(),
                                              " nodes; use \"get mc -o yaml\" with one of them"));
  }
  // Talos' client prints the config as a text inside the resource.
  if (spec->kind == YamlNode::Kind::kScalar) return kj::str(spec->text);
  return stream.textOf(*spec);
}

}  // namespace talos::talosctl
