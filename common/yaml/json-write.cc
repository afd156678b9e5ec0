// Trees of nodes as JSON text. Raw YAML in them is parsed for it.

#include <cmath>
#include <cstdlib>

#include "common/base/annotation.h"
#include "common/text/foreign-text.h"
#include "common/yaml/yaml.h"

namespace talos::codec {
namespace {

class JsonWriter {
 public:
  explicit JsonWriter(unsigned unit) : unit(unit) {}

  kj::String document(const YamlNode& node) {
    value(node, 0);
    return kj::heapString(out.asPtr());
  }

 private:
  kj::Vector<char> out;
  unsigned unit;

  void line(unsigned level) {
    if (unit == 0) return;
    out.add('\n');
    for (unsigned i = 0; i < level * unit; ++i) out.add(' ');
  }

  void value(const YamlNode& node, unsigned level) {
    switch (node.kind) {
      case YamlNode::Kind::kNull:
        out.addAll("null"_kj);
        break;
      case YamlNode::Kind::kScalar:
        scalar(node);
        break;
      case YamlNode::Kind::kRaw:
        raw(node, level);
        break;
      case YamlNode::Kind::kSequence: {
        out.add('[');
        bool first = true;
        for (auto* item : node.items) {
          if (!first) out.add(',');
          first = false;
          line(level + 1);
          value(*item, level + 1);
        }
        if (!first) line(level);
        out.add(']');
        break;
      }
      case YamlNode::Kind::kMapping: {
        out.add('{');
        bool first = true;
        for (auto& entry : node.entries) {
          if (!first) out.add(',');
          first = false;
          line(level + 1);
          out.addAll(jsonString(entry.key));
          out.addAll(unit == 0 ? ":"_kj : ": "_kj);
          value(*entry.value, level + 1);
        }
        if (!first) line(level);
        out.add('}');
      }
    }
  }

  void scalar(const YamlNode& node) {
    auto type = node.plain ? scalarType(node.text) : ScalarType::kText;
    switch (type) {
      case ScalarType::kNull:
        out.addAll("null"_kj);
        return;
      case ScalarType::kBool:
        out.addAll(KJ_ASSERT_NONNULL(parseBool(node.text)) ? "true"_kj : "false"_kj);
        return;
      case ScalarType::kInteger: {
        auto integer = KJ_ASSERT_NONNULL(parseInteger(node.text));
        out.addAll(kj::str(integer.negative ? "-" : "", integer.magnitude));
        return;
      }
      case ScalarType::kFloat: {
        double number = strtod(node.text.cStr(), nullptr);
        if (!std::isfinite(number) || node.text.findFirst('n') != nullptr) break;
        out.addAll(kj::str(number));
        return;
      }
      case ScalarType::kText:
        break;
    }
    out.addAll(jsonString(node.text));
  }

  void raw(const YamlNode& node, unsigned level) {
    Problems problems;
    YamlStream stream(node.text, "", problems);
    if (hasErrors(problems)) {
      out.addAll(jsonString(node.text));
    } else if (stream.documents().size() == 0) {
      out.addAll("null"_kj);
    } else {
      value(*stream.documents()[0], level);
    }
  }
};

// Returns "the column Ready of a raw document": the status of its condition of this type
// (Kubernetes' convention).
kj::String conditionStatus(kj::StringPtr document, kj::StringPtr type) {
  Problems problems;
  YamlStream stream(document, "", problems);
  if (hasErrors(problems) || stream.documents().size() == 0) return kj::str();
  for (auto& entry : stream.documents()[0]->entries) {
    if (entry.key != "conditions") continue;
    for (auto* condition : entry.value->items) {
      kj::StringPtr name, status;
      for (auto& part : condition->entries) {
        if (part.key == "type") name = part.value->text;
        if (part.key == "status") status = part.value->text;
      }
      if (name == type) return kj::str(status);
    }
  }
  return kj::str();
}

}  // namespace

kj::String renderJson(const YamlNode& node, unsigned indent) {
  return JsonWriter(indent).document(node);
}

kj::String writeJson(capnp::DynamicStruct::Reader value, const WriteOptions& options) {
  return renderJson(*treeOf(value, options), options.indent);
}

kj::String cell(capnp::DynamicStruct::Reader value, capnp::StructSchema::Field field) {
  if (annotation::has(field, annotation::kRaw)) {
    return conditionStatus(value.get(field).as<capnp::Text>(),
                           annotation::text(field, annotation::kColumn));
  }
  auto node = treeOf(value, field, {.secrets = Secrets::kHide});
  return node->kind == YamlNode::Kind::kScalar ? kj::str(node->text) : renderJson(*node, 0);
}

}  // namespace talos::codec
