// Decodes trees of nodes into structs: every problem is reported, and none stops the decoding.

#include <kj/encoding.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "common/base/annotation.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "common/yaml/struct-shapes.h"
#include "common/yaml/yaml-codec.h"
#include "common/yaml/yaml-later-keys.h"
#include "common/yaml/yaml.h"

namespace talos::codec {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;
using capnp::StructSchema;

constexpr size_t kMaxPathBytes = 16u << 20;  // that Places holds

kj::StringPtr describe(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMapping:
      return "a mapping";
    default:
      return "a single value";
  }
}

bool isBase64(kj::ArrayPtr<const char> text) {
  if (text.size() % 4 != 0) return false;
  size_t padding = 0;
  for (char c : text) {
    bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  c == '+' || c == '/';
    if (c == '=')
      ++padding;
    else if (!letter || padding > 0)
      return false;
  }
  return padding <= 2;
}

class TreeReader {
 public:
  TreeReader(const YamlStream& stream, Problems& problems, const ReadOptions& options,
             Places* places)
      : stream(stream),
        problems(problems),
        options(options),
        places(places),
        later(options.laterKeys, [this](auto severity, Place place, const Path& path,
                                        kj::String message, kj::String hint) {
          bool unknown = severity == Problem::Severity::kError;
          if (unknown && this->options.unknownKeysAreWarnings)
            severity = Problem::Severity::kWarning;
          report(place, path, kj::mv(message), kj::mv(hint), severity);
        }) {}
  ~TreeReader() noexcept(false) {
    for (auto& bytes : held) zeroize(bytes.asChars());
  }
  KJ_DISALLOW_COPY_AND_MOVE(TreeReader);

  void readStruct(const YamlNode& node, DynamicStruct::Builder target, const Path& path) {
    auto& shape = shapes.of(target.getSchema());
    if (shape.isInline) {
      readField(node, target, inlineField(node, shape), path);
      return;
    }
    if (node.kind != YamlNode::Kind::kMapping && node.kind != YamlNode::Kind::kNull) {
      report(node.place, path,
             kj::str("expected a mapping (\"key: value\" lines), found ", describe(node.kind)));
      return;
    }
    kj::Vector<Seen> seen;
    kj::Vector<const Entry*> others;
    for (auto& entry : node.entries) readEntry(entry, target, shape, path, seen, others);
    if (!others.empty()) readOthers(others, target, shape, path);
    for (auto* field : shape.required) {
      bool given = false;
      for (auto& s : seen) given = given || (s.field == field && !s.null);
      if (!given) {
        Path missing{&path, field->key, nullptr};
        report(node.place, missing, kj::str("required key is missing"));
      }
    }
  }

 private:
  // A key of the mapping that is read, and whether it has no value.
  struct Seen {
    const FieldShape* field;
    bool null;
  };

  const YamlStream& stream;
  Problems& problems;
  const ReadOptions& options;
  Places* places;
  LaterReader later;
  StructShapes shapes;
  kj::Vector<char> noted;                // the text of a path, while its place is noted
  size_t counts[2] = {};                 // reports by severity
  kj::Vector<kj::Array<kj::byte>> held;  // decoded bytes until they are copied into the message

  void report(Place place, const Path& path, kj::String message, kj::String hint = kj::str(),
              Problem::Severity severity = Problem::Severity::kError) {
    if (counts[static_cast<int>(severity)]++ >= kMaxProblems) return;
    auto& problem = problems.add();
    problem.severity = severity;
    problem.file = kj::str(options.file);
    problem.line = place.line;
    problem.column = place.column;
    problem.path = path.toString();
    problem.message = kj::mv(message);
    problem.hint = kj::mv(hint);
  }

  // Returns the union member whose keys fit best; for a struct without a union its only field.
  const FieldShape& inlineField(const YamlNode& node, const StructShape& shape) {
    auto* best = &shape.fields[0];
    size_t bestFit = 0;
    for (auto& candidate : shape.fields) {
      auto type = candidate.field.getType();
      if (!type.isStruct()) continue;
      auto& inner = shapes.of(type.asStruct());
      size_t fit = 0;
      for (auto& entry : node.entries) {
        if (inner.called(entry.key) != nullptr) ++fit;
      }
      if (fit > bestFit) best = &candidate, bestFit = fit;
    }
    return *best;
  }

  void readEntry(const Entry& entry, DynamicStruct::Builder target, const StructShape& shape,
                 const Path& parent, kj::Vector<Seen>& seen, kj::Vector<const Entry*>& others) {
    KJ_IF_MAYBE (field, shape.called(entry.key)) {
      Path path{&parent, field->key, nullptr};
      for (auto& [other, null] : seen) {
        if (other == field) {
          report(entry.place, path,
                 kj::str("the key \"", entry.key,
                         "\" is another spelling of a key that is set already"));
          return;
        }
        if (field->inUnion && other->inUnion) {
          report(entry.place, path,
                 kj::str("only one of \"", other->key, "\" and \"", field->key, "\" can be set"));
          return;
        }
      }
      seen.add(Seen{field, entry.value->kind == YamlNode::Kind::kNull});
      note(path, entry.place);
      if (field->noEffect.size() > 0) {
        report(entry.place, path, kj::str("this key has no effect"), kj::str(field->noEffect),
               Problem::Severity::kWarning);
      }
      readField(*entry.value, target, *field, path);
    } else if (shape.others != nullptr) {
      others.add(&entry);
    } else {
      reportUnknown(entry, target.getSchema(), parent);
    }
  }

  void readOthers(kj::ArrayPtr<const Entry* const> entries, DynamicStruct::Builder target,
                  const StructShape& shape, const Path& parent) {
    auto& field = KJ_ASSERT_NONNULL(shape.others);
    auto list = target.init(field.field, static_cast<unsigned>(entries.size())).as<DynamicList>();
    for (auto i : kj::indices(entries)) {
      readPair(*entries[i], list[static_cast<unsigned>(i)].as<DynamicStruct>(), parent);
    }
  }

  // Reads an entry of a mapping into a struct of `key` and `value`.
  void readPair(const Entry& entry, DynamicStruct::Builder pair, const Path& parent) {
    Path path{&parent, entry.key, nullptr};
    note(path, entry.place);
    pair.set("key", DynamicValue::Reader(capnp::Text::Reader(entry.key)));
    auto& value = shapes.of(pair.getSchema().getFieldByName("value"));
    readField(*entry.value, pair, value, path);
  }

  void note(const Path& path, Place place) {
    if (places == nullptr) return;
    noted.clear();
    path.appendTo(noted);
    noted.add('\0');
    places->add(kj::StringPtr(noted.begin(), noted.size() - 1), place);
  }

  // Returns "a or b.c" if the key is known one level below.
  static kj::String placesOf(kj::StringPtr key, StructSchema schema) {
    kj::Vector<kj::String> found;
    for (auto field : schema.getFields()) {
      if (!field.getType().isStruct() ||
          annotation::fieldCalled(field.getType().asStruct(), key) == nullptr)
        continue;
      found.add(kj::str(keyOf(field)));
    }
    return kj::strArray(found, " or ");
  }

  void reportUnknown(const Entry& entry, StructSchema schema, const Path& parent) {
    Path path{&parent, entry.key, nullptr};
    if (later.read(entry, path)) return;
    auto severity =
        options.unknownKeysAreWarnings ? Problem::Severity::kWarning : Problem::Severity::kError;
    if (counts[static_cast<int>(severity)] >= kMaxProblems) return;
    kj::Vector<kj::StringPtr> names;
    for (auto field : schema.getFields()) {
      if (!annotation::has(field, annotation::kHidden)) names.add(keyOf(field));
    }
    kj::String hint;
    auto below = placesOf(entry.key, schema);
    if (below.size() > 0) {
      hint = kj::str("it belongs below ", below);
    } else KJ_IF_MAYBE (name, closest(entry.key, names)) {
      hint = kj::str("did you mean \"", *name, "\"?");
    } else KJ_IF_MAYBE (name, closest(entry.key, later.namesBelow(parent))) {
      hint = kj::str("did you mean \"", *name, "\"?");
    } else if (names.size() <= 12) {
      hint = kj::str("known keys here: ", kj::strArray(names, ", "));
    }
    report(entry.place, path, kj::str("unknown key \"", entry.key, "\""), kj::mv(hint), severity);
  }

  void readField(const YamlNode& node, DynamicStruct::Builder target, const FieldShape& shape,
                 const Path& path) {
    auto field = shape.field;
    if (shape.isRaw) {
      target.set(field, DynamicValue::Reader(capnp::Text::Reader(stream.textOf(node))));
      return;
    }
    auto type = field.getType();
    if (type.isVoid()) {
      if (node.kind != YamlNode::Kind::kNull &&
          !(node.kind == YamlNode::Kind::kMapping && node.entries.size() == 0)) {
        report(node.place, path, kj::str("this key takes no value, found ", describe(node.kind)),
               kj::str("use {}"));
      }
      target.set(field, capnp::VOID);
      return;
    }
    if (node.kind == YamlNode::Kind::kNull) {
      // A key without a value has no effect, unless its struct has no fields.
      if (type.isStruct() && type.asStruct().getFields().size() == 0) target.init(field);
      return;
    }
    if (shape.isMap) {
      readMap(node, target, field, path);
    } else if (type.isStruct()) {
      readStruct(node, target.init(field).as<DynamicStruct>(), path);
    } else if (type.isList()) {
      readList(node, target, shape, path);
    } else {
      KJ_IF_MAYBE (value, readScalar(node, type, path, shape.isSecret)) {
        target.set(field, *value);
      }
    }
  }

  void readMap(const YamlNode& node, DynamicStruct::Builder target, StructSchema::Field field,
               const Path& path) {
    if (node.kind != YamlNode::Kind::kMapping) {
      report(node.place, path,
             kj::str("expected a mapping (\"key: value\" lines), found ", describe(node.kind)));
      return;
    }
    auto list = target.init(field, node.entries.size()).as<DynamicList>();
    for (size_t i = 0; i < node.entries.size(); ++i) {
      readPair(node.entries[i], list[i].as<DynamicStruct>(), path);
    }
  }

  void readList(const YamlNode& node, DynamicStruct::Builder target, const FieldShape& shape,
                const Path& path) {
    if (node.kind != YamlNode::Kind::kSequence) {
      report(node.place, path, kj::str("expected a list, found ", describe(node.kind)),
             kj::str("begin each item with \"- \""));
      return;
    }
    readItems(node, target.init(shape.field, node.items.size()).as<DynamicList>(), path,
              shape.isSecret);
  }

  void readItems(const YamlNode& node, DynamicList::Builder list, const Path& parent, bool secret) {
    auto type = list.getSchema().getElementType();
    for (size_t i = 0; i < node.items.size(); ++i) {
      auto& item = *node.items[i];
      Path path{&parent, nullptr, i};
      note(path, item.place);
      if (type.isStruct()) {
        if (item.kind == YamlNode::Kind::kNull) {
          report(item.place, path, kj::str("empty item"), kj::str("remove it or set its keys"));
        } else {
          readStruct(item, list[i].as<DynamicStruct>(), path);
        }
      } else if (type.isList()) {
        if (item.kind == YamlNode::Kind::kSequence) {
          readItems(item, list.init(i, item.items.size()).as<DynamicList>(), path, secret);
        } else {
          report(item.place, path, kj::str("expected a list, found ", describe(item.kind)));
        }
      } else if (item.kind == YamlNode::Kind::kNull) {
        report(item.place, path, kj::str("empty item"), kj::str("remove it or set its value"));
      } else {
        KJ_IF_MAYBE (value, readScalar(item, type, path, secret)) list.set(i, *value);
      }
    }
  }

  // Quotes a value in a message, unless it is long or a secret.
  static kj::String describeValue(const YamlNode& node, bool secret) {
    if (secret) return kj::str("this value");
    if (node.text.size() <= 60) return jsonString(node.text);
    return kj::str("this text of ", node.text.size(), " bytes");
  }

  kj::Maybe<DynamicValue::Reader> readScalar(const YamlNode& node, capnp::Type type,
                                             const Path& path, bool secret) {
    if (node.kind != YamlNode::Kind::kScalar) {
      report(node.place, path, kj::str("expected a single value, found ", describe(node.kind)));
      return nullptr;
    }
    switch (type.which()) {
      case capnp::schema::Type::TEXT:
        return DynamicValue::Reader(capnp::Text::Reader(node.text));
      case capnp::schema::Type::DATA:
        return readData(node, path);
      case capnp::schema::Type::BOOL:
        return readBool(node, path, secret);
      case capnp::schema::Type::ENUM:
        return readEnum(node, type.asEnum(), path, secret);
      case capnp::schema::Type::FLOAT32:
      case capnp::schema::Type::FLOAT64:
        return readFloat(node, path, secret);
      case capnp::schema::Type::INT8:
        return readInteger<int8_t>(node, path, secret);
      case capnp::schema::Type::INT16:
        return readInteger<int16_t>(node, path, secret);
      case capnp::schema::Type::INT32:
        return readInteger<int32_t>(node, path, secret);
      case capnp::schema::Type::INT64:
        return readInteger<int64_t>(node, path, secret);
      case capnp::schema::Type::UINT8:
        return readInteger<uint8_t>(node, path, secret);
      case capnp::schema::Type::UINT16:
        return readInteger<uint16_t>(node, path, secret);
      case capnp::schema::Type::UINT32:
        return readInteger<uint32_t>(node, path, secret);
      case capnp::schema::Type::UINT64:
        return readInteger<uint64_t>(node, path, secret);
      default:
        KJ_FAIL_REQUIRE("a field of this type has no YAML form",
                        static_cast<unsigned>(type.which()));
    }
  }

  kj::Maybe<DynamicValue::Reader> readBool(const YamlNode& node, const Path& path, bool secret) {
    KJ_IF_MAYBE (value, parseBool(node.text)) {
      if (node.plain) return DynamicValue::Reader(*value);
      report(node.place, path,
             kj::str(describeValue(node, secret), " is quoted and therefore text"),
             kj::str("remove the quotes"));
      return nullptr;
    }
    report(node.place, path, kj::str(describeValue(node, secret), " is neither true nor false"));
    return nullptr;
  }

  kj::Maybe<DynamicValue::Reader> readEnum(const YamlNode& node, capnp::EnumSchema schema,
                                           const Path& path, bool secret) {
    kj::Vector<kj::StringPtr> names;
    for (auto enumerant : schema.getEnumerants()) {
      if (annotation::isCalled(enumerant, node.text)) {
        return DynamicValue::Reader(capnp::DynamicEnum(enumerant));
      }
      names.add(annotation::nameOf(enumerant));
    }
    auto all = kj::strArray(names, ", ");
    auto noun = annotation::text(schema, annotation::kNoun);
    auto hint = kj::str("use one of ", all);
    KJ_IF_MAYBE (name, closest(node.text, names)) {
      hint = noun.size() == 0 ? kj::str("did you mean \"", *name, "\"?")
                              : kj::str("did you mean \"", *name, "\"? (", all, ")");
    }
    report(node.place, path,
           noun.size() == 0 ? kj::str(describeValue(node, secret), " is not a valid value")
                            : kj::str(describeValue(node, secret), " is not a valid ", noun),
           kj::mv(hint));
    return nullptr;
  }

  kj::Maybe<DynamicValue::Reader> readFloat(const YamlNode& node, const Path& path, bool secret) {
    auto type = node.plain ? scalarType(node.text) : ScalarType::kText;
    if (type == ScalarType::kInteger) {
      auto integer = KJ_ASSERT_NONNULL(parseInteger(node.text));
      double magnitude = static_cast<double>(integer.magnitude);
      return DynamicValue::Reader(integer.negative ? -magnitude : magnitude);
    }
    if (type == ScalarType::kFloat) {
      // strtod knows neither the dot before inf and nan nor the locale's comma: the locale is never
      // set.
      kj::String text = kj::str(node.text);
      size_t dot = text.findFirst('.').orDefault(text.size());
      bool named =
          dot + 1 < text.size() && (text[dot + 1] | 0x20) >= 'a' && (text[dot + 1] | 0x20) != 'e';
      if (!named) return DynamicValue::Reader(strtod(text.cStr(), nullptr));
      if ((text[dot + 1] | 0x20) == 'n') return DynamicValue::Reader(kj::nan());
      return DynamicValue::Reader(text[0] == '-' ? -double(kj::inf()) : double(kj::inf()));
    }
    report(node.place, path, kj::str(describeValue(node, secret), " is not a number"));
    return nullptr;
  }

  template <typename T>
  kj::Maybe<DynamicValue::Reader> readInteger(const YamlNode& node, const Path& path, bool secret) {
    if (!node.plain) {
      report(node.place, path,
             kj::str(describeValue(node, secret), " is quoted and therefore text, not a number"),
             kj::str("remove the quotes"));
      return nullptr;
    }
    auto parsed = parseInteger(node.text);
    KJ_IF_MAYBE (integer, parsed) {
      auto limit = static_cast<uint64_t>(std::numeric_limits<T>::max());
      if (!integer->negative && integer->magnitude <= limit)
        return DynamicValue::Reader(static_cast<T>(integer->magnitude));
      if (integer->negative && integer->magnitude == 0) return DynamicValue::Reader(T(0));
      if constexpr (std::numeric_limits<T>::is_signed) {
        if (integer->negative && integer->magnitude <= limit + 1) {
          return DynamicValue::Reader(static_cast<T>(0 - integer->magnitude));
        }
      }
    }
    auto range = kj::str("must be ", int64_t(std::numeric_limits<T>::min()), " to ",
                         uint64_t(std::numeric_limits<T>::max()));
    // More digits than 64 bits hold are a whole number too, and out of range.
    auto digits = node.text.slice(node.text.startsWith("-") || node.text.startsWith("+") ? 1 : 0);
    bool tooLarge = digits.size() > 0 && strspn(digits.cStr(), "0123456789") == digits.size();
    if (parsed == nullptr && !tooLarge) {
      report(node.place, path, kj::str(describeValue(node, secret), " is not a whole number"),
             kj::mv(range));
    } else {
      report(node.place, path, kj::str(describeValue(node, secret), " is out of range"),
             kj::mv(range));
    }
    return nullptr;
  }

  kj::Maybe<DynamicValue::Reader> readData(const YamlNode& node, const Path& path) {
    kj::Vector<char> compact(node.text.size());
    for (char c : node.text) {
      if (c != '\n' && c != '\r' && c != ' ') compact.add(c);
    }
    KJ_DEFER(zeroize(compact.asPtr()));
    if (!isBase64(compact)) {
      report(node.place, path, kj::str("not valid base64"),
             node.text.startsWith("-----BEGIN")
                 ? kj::str("encode the PEM text: base64 -w0 FILE")
                 : kj::str("use A-Z a-z 0-9 + / padded with = to a multiple of 4"));
      return nullptr;
    }
    held.add(kj::decodeBase64(compact.asPtr()));
    return DynamicValue::Reader(capnp::Data::Reader(held.back()));
  }
};

}  // namespace

void Places::add(kj::StringPtr path, Place place) {
  if (bytes + path.size() > kMaxPathBytes) return;
  bytes += path.size();
  places.upsert(kj::str(path), place, [](Place& existing, Place&& replacement) {});
}

void Places::replace(kj::StringPtr path, Place place) {
  KJ_IF_MAYBE (present, places.find(path)) {
    *present = place;
  } else {
    add(path, place);
  }
}

Place Places::find(kj::StringPtr path) const {
  auto rest = kj::heapString(path);
  for (;;) {
    KJ_IF_MAYBE (place, places.find(rest)) return *place;
    size_t cut = rest.size();
    while (cut > 0 && rest[cut - 1] != '.' && rest[cut - 1] != '[') --cut;
    if (cut == 0) return {};
    rest = kj::heapString(rest.asArray().slice(0, cut - 1));
  }
}

bool readNode(const YamlStream& stream, const YamlNode& node, DynamicStruct::Builder target,
              Problems& problems, const ReadOptions& options, Places* places) {
  size_t before = problems.size();
  TreeReader(stream, problems, options, places).readStruct(node, target, Path{});
  for (size_t i = before; i < problems.size(); ++i) {
    if (problems[i].severity == Problem::Severity::kError) return false;
  }
  return true;
}

bool readYaml(kj::ArrayPtr<const char> text, DynamicStruct::Builder target, Problems& problems,
              const ReadOptions& options, Places* places) {
  size_t before = problems.size();
  YamlStream stream(text, options.file, problems);
  if (problems.size() > before) return false;
  auto documents = stream.documents();
  if (documents.size() == 1)
    return readNode(stream, *documents[0], target, problems, options, places);

  auto& problem = problems.add();
  problem.file = kj::str(options.file);
  if (documents.size() == 0) {
    problem.message = kj::str("the document is empty");
  } else {
    problem.line = documents[1]->place.line;
    problem.column = documents[1]->place.column;
    problem.message = kj::str("expected one document, found a second one");
  }
  return false;
}

}  // namespace talos::codec
