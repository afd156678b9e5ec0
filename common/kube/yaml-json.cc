// The reading half of json-yaml.h.
#include <stdlib.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "common/yaml/yaml.h"

namespace talos::kube {
namespace {

using codec::YamlNode;

std::string textOf(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

Json scalarOf(const YamlNode& node) {
  if (!node.plain) return textOf(node.text);
  switch (codec::scalarType(node.text)) {
    case codec::ScalarType::kNull:
      return nullptr;
    case codec::ScalarType::kBool:
      return codec::parseBool(node.text).orDefault(false);
    case codec::ScalarType::kInteger:
      KJ_IF_MAYBE (integer, codec::parseInteger(node.text)) {
        if (!integer->negative) return integer->magnitude;
        if (integer->magnitude <= uint64_t(INT64_MAX)) return -int64_t(integer->magnitude);
      }
      return strtod(node.text.cStr(), nullptr);
    case codec::ScalarType::kFloat: {
      auto number = strtod(node.text.cStr(), nullptr);
      if (node.text.findFirst('i') != nullptr || node.text.findFirst('n') != nullptr ||
          node.text.findFirst('I') != nullptr || node.text.findFirst('N') != nullptr) {
        fail(ErrorKind::kInvalidArgument, kj::str(node.place.line, ":", node.place.column, ": ",
                                                  node.text, " is no number of JSON; quote it"));
      }
      return number;
    }
    case codec::ScalarType::kText:
      // Booleans as kubectl reads manifests: yes, no, on and off of YAML 1.1, but not y and n.
      if (node.text.size() > 1) {
        KJ_IF_MAYBE (flag, codec::parseBool(node.text)) return *flag;
      }
      break;
  }
  return textOf(node.text);
}

Json valueOf(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kMapping: {
      if (node.entries.size() > kMostJsonMembers) {
        fail(ErrorKind::kInvalidArgument,
             kj::str("a mapping has more than ", kMostJsonMembers, " keys"));
      }
      auto value = Json::object();
      for (auto& entry : node.entries) value[textOf(entry.key)] = valueOf(*entry.value);
      return value;
    }
    case YamlNode::Kind::kSequence: {
      auto value = Json::array();
      for (auto item : node.items) value.push_back(valueOf(*item));
      return value;
    }
    case YamlNode::Kind::kScalar:
      return scalarOf(node);
    default:
      return nullptr;
  }
}

}  // namespace

kj::Vector<Json> readYaml(kj::ArrayPtr<const char> text, kj::StringPtr file) {
  Problems problems;
  codec::YamlStream stream(text, file, problems);
  if (hasErrors(problems)) {
    auto lines = render(problems);
    fail(ErrorKind::kInvalidArgument, kj::heapString(lines.slice(0, lines.size() - 1)));
  }
  kj::Vector<Json> documents;
  for (auto document : stream.documents()) {
    if (document->kind != YamlNode::Kind::kNull) documents.add(valueOf(*document));
  }
  return documents;
}

}  // namespace talos::kube
