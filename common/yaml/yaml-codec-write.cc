// Converts structs to trees of nodes, and these to text.

#include <kj/encoding.h>
#include <stdio.h>

#include "common/base/annotation.h"
#include "common/base/error.h"
#include "common/yaml/yaml-codec.h"
#include "common/yaml/yaml.h"

namespace talos::codec {
namespace {

using capnp::DynamicEnum;
using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;
using capnp::StructSchema;

constexpr kj::StringPtr kHidden = "***"_kj;
constexpr size_t kCommentWidth = 90;

bool isEmpty(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kNull ||
         (node.kind == YamlNode::Kind::kRaw && node.text.size() == 0) ||
         (node.kind == YamlNode::Kind::kScalar && node.text.size() == 0) ||
         (node.kind == YamlNode::Kind::kSequence && node.items.size() == 0);
}

// Wraps a text at blanks, so that comments stay readable.
kj::String wrapped(kj::StringPtr text) {
  auto out = kj::heapString(text);
  size_t lineStart = 0, lastBlank = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '\n') lineStart = i + 1;
    if (out[i] == ' ') lastBlank = i;
    if (i - lineStart >= kCommentWidth && lastBlank > lineStart) {
      out[lastBlank] = '\n';
      lineStart = lastBlank + 1;
    }
  }
  return out;
}

class TreeWriter {
 public:
  explicit TreeWriter(const WriteOptions& options) : options(options) {}

  using Example = kj::Maybe<DynamicStruct::Reader>;

  const YamlNode& ofStruct(DynamicStruct::Reader value, Example example = nullptr) {
    auto schema = value.getSchema();
    if (annotation::has(schema, annotation::kInline)) {
      for (auto field : schema.getFields()) {
        if (isActive(value, field)) return ofField(value, field);
      }
      return make();
    }
    auto& node = make();
    node.kind = YamlNode::Kind::kMapping;
    for (auto field : schema.getFields()) {
      if (!isActive(value, field) || annotation::has(field, annotation::kHidden)) continue;
      if (annotation::has(field, annotation::kIfGiven) && !value.has(field)) continue;
      // An unset union has its first member; the others are a choice, empty or not.
      bool chosen = annotation::inUnion(field) && field.getProto().getDiscriminantValue() > 0;
      if (annotation::has(field, annotation::kOthers)) {
        addEntries(node, value.get(field).as<DynamicList>());
        continue;
      }
      bool keep = options.empties == Empties::kKeep ||
                  annotation::has(field, annotation::kKeepEmpty) || chosen;
      if (!keep && !value.has(field, capnp::HasMode::NON_DEFAULT)) {
        addExample(node, example, field);
        continue;
      }
      auto& child = isPlainStruct(field)
                        ? ofStruct(value.get(field).as<DynamicStruct>(), exampleOf(example, field))
                        : ofField(value, field);
      if (!keep && isEmpty(child)) continue;
      spend(sizeof(Entry) + keyOf(field).size());
      node.entries.add(Entry{kj::str(keyOf(field)), {}, &child, commentOf(field)});
    }
    return node;
  }

  const YamlNode& ofField(DynamicStruct::Reader value, StructSchema::Field field) {
    if (options.secrets == Secrets::kHide && annotation::has(field, annotation::kSecret) &&
        value.has(field, capnp::HasMode::NON_DEFAULT)) {
      bool map = annotation::has(field, annotation::kMap);
      return map ? ofMap(value.get(field).as<DynamicList>(), true) : text(kHidden);
    }
    auto member = value.get(field);
    if (annotation::has(field, annotation::kRaw)) {
      if (hasSeveralDocuments(member.as<capnp::Text>())) return text(member.as<capnp::Text>());
      auto& node = make();
      node.kind = YamlNode::Kind::kRaw;
      spendText(member.as<capnp::Text>());
      node.text = kj::str(member.as<capnp::Text>());
      return node;
    }
    if (annotation::has(field, annotation::kMap)) return ofMap(member.as<DynamicList>());
    if (annotation::has(field, annotation::kOctal)) return ofOctal(member.as<uint64_t>());
    return ofValue(member, field.getType());
  }

 private:
  const WriteOptions& options;
  kj::Arena arena;
  size_t spent = 0;

  YamlNode& make() {
    spend(sizeof(YamlNode));
    return arena.allocate<YamlNode>();
  }

  void spend(size_t bytes) {
    spent += bytes;
    if (spent <= options.mostBytes) return;
    fail(ErrorKind::kResourceExhausted,
         kj::str("the value needs more than ", options.mostBytes, " bytes as YAML"));
  }

  // Counts the text as written: with escapes, and with the indentation of its lines.
  void spendText(kj::StringPtr text) {
    constexpr size_t kEscape = 8;
    spend(text.size());
    if (options.mostBytes == kj::maxValue) return;
    for (unsigned char c : text) {
      if (c < ' ' || c >= 0x7f || c == '"' || c == '\\') spend(kEscape);
    }
  }

  // Returns false for members of a union that are not set.
  static bool isActive(DynamicStruct::Reader value, StructSchema::Field field) {
    if (!annotation::inUnion(field)) return true;
    KJ_IF_MAYBE (which, value.which()) return *which == field;
    return false;
  }

  static bool isPlainStruct(StructSchema::Field field) {
    return field.getType().isStruct() && !annotation::has(field, annotation::kSecret) &&
           !annotation::inUnion(field);
  }

  static Example exampleOf(const Example& example, StructSchema::Field field) {
    KJ_IF_MAYBE (e, example) {
      if (e->has(field)) return e->get(field).as<DynamicStruct>();
    }
    return nullptr;
  }

  // Adds an absent key, as the user would write it, after '#'.
  void addExample(YamlNode& node, const Example& example, StructSchema::Field field) {
    KJ_IF_MAYBE (e, example) {
      if (!e->has(field, capnp::HasMode::NON_DEFAULT)) return;
      auto comment = commentOf(field);
      kj::Vector<kj::String> lines;
      if (comment.size() > 0) {
        lines.add(kj::str("# "));
        for (char c : comment) lines.add(c == '\n' ? kj::str("\n# ") : kj::str(c));
        lines.add(kj::str("\n"));
      }
      auto text = renderYamlEntry(keyOf(field), ofField(*e, field), options.indent, 0);
      lines.add(kj::str(text.slice(0, text.size() - 1)));
      node.entries.add(Entry{kj::str(), {}, nullptr, arena.copyString(kj::strArray(lines, ""))});
    }
  }

  kj::StringPtr commentOf(StructSchema::Field field) {
    if (!options.comments) return nullptr;
    auto doc = annotation::text(field, annotation::kDoc);
    if (doc.size() == 0) return nullptr;
    return arena.copyString(wrapped(doc));
  }

  YamlNode& text(kj::StringPtr content) {
    spendText(content);
    auto& node = make();
    node.kind = YamlNode::Kind::kScalar;
    node.text = kj::str(content);
    return node;
  }

  YamlNode& plain(kj::String content) {
    auto& node = make();
    node.kind = YamlNode::Kind::kScalar;
    node.plain = true;
    node.text = kj::mv(content);
    return node;
  }

  const YamlNode& ofOctal(uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof(digits), "0o%03lo", static_cast<unsigned long>(value));
    return plain(kj::str(digits));
  }

  // The enumerant's number where the schema does not know it: written by a newer program.
  const YamlNode& ofEnum(DynamicEnum value) {
    KJ_IF_MAYBE (enumerant, value.getEnumerant()) {
      auto name = annotation::nameOf(*enumerant);
      // A choice that other programs read as a boolean.
      if (name == "true" || name == "false") return plain(kj::str(name));
      return text(name);
    }
    return plain(kj::str(value.getRaw()));
  }

  const YamlNode& ofFloat(double value, bool narrow) {
    if (value != value) return plain(kj::str(".nan"));
    if (value == kj::inf()) return plain(kj::str(".inf"));
    if (value == -kj::inf()) return plain(kj::str("-.inf"));
    return plain(narrow ? kj::str(static_cast<float>(value)) : kj::str(value));
  }

  const YamlNode& ofValue(const DynamicValue::Reader& value, capnp::Type type) {
    switch (value.getType()) {
      case DynamicValue::VOID: {
        auto& node = make();
        node.kind = YamlNode::Kind::kMapping;
        return node;
      }
      case DynamicValue::BOOL:
        return plain(kj::str(value.as<bool>()));
      case DynamicValue::INT:
        return plain(kj::str(value.as<int64_t>()));
      case DynamicValue::UINT:
        return plain(kj::str(value.as<uint64_t>()));
      case DynamicValue::FLOAT:
        return ofFloat(value.as<double>(), type.isFloat32());
      case DynamicValue::TEXT:
        return text(value.as<capnp::Text>());
      case DynamicValue::DATA:
        spend(2 * value.as<capnp::Data>().size());
        return text(kj::encodeBase64(value.as<capnp::Data>()));
      case DynamicValue::ENUM:
        return ofEnum(value.as<DynamicEnum>());
      case DynamicValue::STRUCT:
        return ofStruct(value.as<DynamicStruct>());
      case DynamicValue::LIST: {
        auto list = value.as<DynamicList>();
        auto& node = make();
        node.kind = YamlNode::Kind::kSequence;
        for (auto item : list) {
          spend(sizeof(YamlNode*));
          node.items.add(&ofValue(item, list.getSchema().getElementType()));
        }
        return node;
      }
      default:
        return make();
    }
  }

  const YamlNode& ofMap(DynamicList::Reader list, bool hidden = false) {
    auto& node = make();
    node.kind = YamlNode::Kind::kMapping;
    addEntries(node, list, hidden);
    return node;
  }

  void addEntries(YamlNode& node, DynamicList::Reader list, bool hidden = false) {
    for (auto item : list) {
      auto pair = item.as<DynamicStruct>();
      auto value = pair.getSchema().getFieldByName("value");
      spend(sizeof(Entry));
      spendText(pair.get("key").as<capnp::Text>());
      node.entries.add(Entry{kj::str(pair.get("key").as<capnp::Text>()),
                             {},
                             hidden ? &text(kHidden) : &ofField(pair, value),
                             nullptr});
    }
  }
};

}  // namespace

kj::StringPtr keyOf(StructSchema::Field field) {
  return annotation::nameOf(field);
}

kj::String writeYaml(DynamicStruct::Reader value, const WriteOptions& options) {
  TreeWriter writer(options);
  return renderYaml(writer.ofStruct(value, options.examples), options.indent, options.startColumn);
}

kj::String writeYamlEntry(kj::StringPtr key, DynamicStruct::Reader value,
                          const WriteOptions& options) {
  TreeWriter writer(options);
  return renderYamlEntry(key, writer.ofStruct(value), options.indent, options.startColumn);
}

kj::Own<const YamlNode> treeOf(DynamicStruct::Reader value, const WriteOptions& options) {
  auto writer = kj::heap<TreeWriter>(options);
  auto& root = writer->ofStruct(value);
  return kj::Own<const YamlNode>(&root, kj::NullDisposer::instance).attach(kj::mv(writer));
}

kj::Own<const YamlNode> treeOf(DynamicStruct::Reader value, StructSchema::Field field,
                               const WriteOptions& options) {
  auto writer = kj::heap<TreeWriter>(options);
  auto& root = writer->ofField(value, field);
  return kj::Own<const YamlNode>(&root, kj::NullDisposer::instance).attach(kj::mv(writer));
}

}  // namespace talos::codec
