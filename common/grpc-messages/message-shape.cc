#include "common/grpc-messages/message-shape.h"

#include "common/base/error.h"
#include "common/grpc-messages/field-transforms.h"
#include "common/text/ascii.h"

namespace talos::grpcapi {
namespace {

using capnp::DynamicList;
using capnp::DynamicStruct;
using capnp::DynamicValue;
using capnp::schema::Type;

bool isNumber(capnp::Type type) {
  return type.isBool() || type.isInt8() || type.isInt16() || type.isInt32() || type.isInt64() ||
         type.isUInt8() || type.isUInt16() || type.isUInt32() || type.isUInt64() ||
         type.isFloat64() || type.isEnum();
}

WireType wireTypeOf(capnp::Type type) {
  return type.isFloat64() ? WireType::kFixed64
         : isNumber(type) ? WireType::kVarint
                          : WireType::kBytes;
}

uint64_t bitsOfNumber(DynamicValue::Reader value) {
  switch (value.getType()) {
    case DynamicValue::BOOL:
      return value.as<bool>();
    case DynamicValue::INT:
      return signExtended(value.as<int64_t>());
    case DynamicValue::UINT:
      return value.as<uint64_t>();
    case DynamicValue::FLOAT:
      return bitsOf(value.as<double>());
    case DynamicValue::ENUM:
      return value.as<capnp::DynamicEnum>().getRaw();
    default:
      KJ_UNREACHABLE;
  }
}

// Takes the low bits, as every protobuf reader does.
DynamicValue::Reader numberOf(capnp::Type type, uint64_t bits) {
  switch (type.which()) {
    case Type::BOOL:
      return bits != 0;
    case Type::INT8:
      return int8_t(bits);
    case Type::INT16:
      return int16_t(bits);
    case Type::INT32:
      return int32_t(bits);
    case Type::INT64:
      return int64_t(bits);
    case Type::UINT8:
      return uint8_t(bits);
    case Type::UINT16:
      return uint16_t(bits);
    case Type::UINT32:
      return uint32_t(bits);
    case Type::UINT64:
      return bits;
    case Type::FLOAT64:
      return doubleOf(bits);
    case Type::ENUM: {
      auto schema = type.asEnum();
      if (bits >= schema.getEnumerants().size()) {
        fail(ErrorKind::kInvalidArgument,
             kj::str(int32_t(bits), " is not a valid ", schema.getShortDisplayName()));
      }
      return capnp::DynamicEnum(schema, uint16_t(bits));
    }
    default:
      KJ_UNREACHABLE;
  }
}

// Checks every text, even one that a later text of the same field replaces.
void checkText(Bytes bytes) {
  if (!isUtf8(bytes.asChars())) fail(ErrorKind::kInvalidArgument, "a text is not UTF-8");
}

capnp::Text::Reader asText(Bytes bytes, kj::Maybe<kj::String>& hold) {
  return hold.emplace(kj::heapString(bytes.asChars()));
}

}  // namespace

void checkItems(size_t count) {
  if (count <= kMostItems) return;
  fail(ErrorKind::kResourceExhausted,
       kj::str("the node has sent a list of ", count, " items; at most ", kMostItems, " are read"));
}

struct Shape::Field {
  uint32_t number;
  kj::Vector<capnp::StructSchema::Field> path;  // empty: the struct itself
  const Transform* transform = nullptr;
  bool always = false;
  kj::Maybe<int64_t> constant;
  kj::Maybe<kj::String> text;     // constant text
  kj::Maybe<kj::String> missing;  // error text if the field is set; nullptr: supported
  uint64_t harmless = 0;          // value that does not count as set, like zero
  kj::Maybe<Shape> message;

  capnp::Type type() const { return path.back().getType(); }
  bool isList() const { return path.size() > 0 && type().isList(); }
  bool isText() const {
    return path.size() > 0 && message == nullptr && transform == nullptr && itemType().isText();
  }
  // Returns true if the last of several values is used: proto3's rule for all fields except lists
  // and messages.
  bool lastCounts() const { return !isList() && message == nullptr && missing == nullptr; }
  capnp::Type itemType() const { return isList() ? type().asList().getElementType() : type(); }

  void encode(DynamicStruct::Reader value, WireWriter& out) const;
  void encodeValue(DynamicValue::Reader value, WireWriter& out) const;
  void encodeList(DynamicList::Reader list, WireWriter& out) const;

  bool takes(const WireField& field) const;
  // `found`: the occurrences of this field in the message, in order.
  void decode(kj::ArrayPtr<const WireField> found, DynamicStruct::Builder into) const;
  void decodeList(kj::ArrayPtr<const WireField> found, DynamicStruct::Builder into) const;
};

struct Shape::Parser {
  kj::StringPtr rest, whole;

  [[noreturn]] void wrong(kj::StringPtr error) const {
    fail(ErrorKind::kInternal, kj::str("shape \"", whole, "\", before \"", rest, "\": ", error));
  }
  bool take(char c) {
    if (rest.size() == 0 || rest[0] != c) return false;
    rest = rest.slice(1);
    return true;
  }
  void skipSpace() {
    while (rest.size() > 0 && rest[0] == ' ') rest = rest.slice(1);
  }
  kj::String name() {
    size_t size = 0;
    while (size < rest.size() &&
           (isLower(rest[size]) || isUpper(rest[size]) || isDigit(rest[size]))) {
      ++size;
    }
    if (size == 0) wrong("a name is missing");
    auto name = kj::heapString(rest.slice(0, size));
    rest = rest.slice(size);
    return name;
  }
  kj::String quoted() {
    size_t end = rest.findFirst('\'').orDefault(rest.size());
    if (end == rest.size()) wrong("a quote is not closed");
    auto text = kj::heapString(rest.slice(0, end));
    rest = rest.slice(end + 1);
    return text;
  }
  int64_t number() {
    bool negative = take('-');
    if (rest.size() == 0 || !isDigit(rest[0])) wrong("a number is missing");
    int64_t value = 0;
    for (; rest.size() > 0 && isDigit(rest[0]); rest = rest.slice(1)) {
      value = value * 10 + (rest[0] - '0');
    }
    return negative ? -value : value;
  }
};

Shape::~Shape() noexcept(false) = default;
Shape::Shape(Shape&&) = default;
Shape& Shape::operator=(Shape&&) = default;

Shape::Shape(kj::StringPtr text, capnp::StructSchema schema) {
  Parser parser{text, text};
  *this = Shape(parser, schema);
  if (parser.rest.size() > 0) parser.wrong("unexpected text at the end");
}

Shape::Shape(Parser& parser, capnp::StructSchema schema) {
  for (parser.skipSpace(); parser.rest.size() > 0 && parser.rest[0] != '}'; parser.skipSpace()) {
    auto field = kj::heap<Field>();
    field->number = parser.number();
    if (parser.take('^')) {
      if (parser.rest.size() > 0 && isDigit(parser.rest[0])) field->harmless = parser.number();
      field->missing =
          parser.take('\'') ? parser.quoted() : kj::str(parser.name(), " is not supported");
      fields.add(kj::mv(field));
      continue;
    }
    auto inside = schema;
    if (parser.take(':')) {
      while (parser.rest.size() > 0 && parser.rest[0] != '{') {
        auto name = parser.name();
        KJ_IF_MAYBE (found, inside.findFieldByName(name)) {
          field->path.add(*found);
        } else {
          parser.wrong(kj::str(inside.getShortDisplayName(), " has no ", name));
        }
        if (!parser.take('.')) break;
        if (!field->type().isStruct()) parser.wrong(kj::str(name, " is not a struct"));
        inside = field->type().asStruct();
      }
    }
    if (parser.take('~')) field->transform = &findTransform(parser.name());
    if (parser.take('=')) {
      if (parser.take('\'')) {
        field->text = parser.quoted();
      } else {
        field->constant = parser.number();
      }
    }
    field->always = parser.take('!');
    if (parser.take('{')) {
      if (field->path.size() > 0) {
        auto type = field->itemType();
        if (!type.isStruct()) parser.wrong("what is in front of the brace is not a struct");
        inside = type.asStruct();
      }
      field->message.emplace(Shape(parser, inside));
      if (!parser.take('}')) parser.wrong("a brace is not closed");
    } else if (field->path.size() > 0 && field->transform == nullptr) {
      auto type = field->itemType();
      if (!isNumber(type) && !type.isText() && !type.isData()) {
        parser.wrong("this field has no counterpart");
      }
    } else if (field->path.size() == 0 && field->constant == nullptr && field->text == nullptr) {
      parser.wrong("a field is missing");
    }
    fields.add(kj::mv(field));
  }
}

// --- writing ---

void Shape::encode(DynamicStruct::Reader value, WireWriter& out) const {
  for (auto& field : fields) field->encode(value, out);
}

kj::Array<kj::byte> Shape::encode(DynamicStruct::Reader value) const {
  WireWriter out;
  encode(value, out);
  return out.finish();
}

void Shape::Field::encode(DynamicStruct::Reader value, WireWriter& out) const {
  if (path.size() == 0) {
    KJ_IF_MAYBE (shape, message) {
      auto inside = shape->encode(value);
      if (inside.size() > 0 || always) out.bytes(number, inside);
    } else KJ_IF_MAYBE (constantText, text) {
      out.text(number, *constantText);
    } else {
      out.varint(number, signExtended(KJ_ASSERT_NONNULL(constant)));
    }
    return;
  }
  for (auto& step : path) {
    bool last = &step == &path.back();
    if (step.getProto().getDiscriminantValue() != capnp::schema::Field::NO_DISCRIMINANT) {
      auto which = value.which();
      if (which == nullptr || KJ_ASSERT_NONNULL(which) != step) return;
    }
    if (last) return encodeValue(value.get(step), out);
    value = value.get(step).as<DynamicStruct>();
  }
}

void Shape::Field::encodeValue(DynamicValue::Reader value, WireWriter& out) const {
  if (value.getType() == DynamicValue::LIST && (transform == nullptr || !transform->wholeList)) {
    return encodeList(value.as<DynamicList>(), out);
  }
  if (transform != nullptr) return transform->encode(number, value, out);
  switch (value.getType()) {
    case DynamicValue::STRUCT: {
      auto inside = KJ_ASSERT_NONNULL(message).encode(value.as<DynamicStruct>());
      if (inside.size() > 0 || always) out.bytes(number, inside);
      return;
    }
    case DynamicValue::TEXT: {
      kj::StringPtr text = value.as<capnp::Text>();
      if (text.size() > 0 || always) out.text(number, text);
      return;
    }
    case DynamicValue::DATA: {
      auto data = value.as<capnp::Data>();
      if (data.size() > 0 || always) out.bytes(number, data);
      return;
    }
    default: {
      auto bits = bitsOfNumber(value);
      if (bits == 0 && !always) return;
      if (value.getType() == DynamicValue::FLOAT) {
        out.fixed64(number, bits);
      } else {
        out.varint(number, bits);
      }
    }
  }
}

void Shape::Field::encodeList(DynamicList::Reader list, WireWriter& out) const {
  checkItems(list.size());
  if (transform == nullptr && isNumber(itemType())) {
    if (list.size() == 0) return;
    WireWriter packed;
    bool fixed = itemType().isFloat64();
    for (auto item : list) {
      fixed ? packed.bareFixed64(bitsOfNumber(item)) : packed.bareVarint(bitsOfNumber(item));
    }
    return out.bytes(number, packed.written());
  }
  for (auto item : list) {  // every item counts, even an empty one
    if (transform != nullptr) {
      transform->encode(number, item, out);
    } else if (item.getType() == DynamicValue::STRUCT) {
      out.bytes(number, KJ_ASSERT_NONNULL(message).encode(item.as<DynamicStruct>()));
    } else if (item.getType() == DynamicValue::TEXT) {
      out.text(number, item.as<capnp::Text>());
    } else {
      out.bytes(number, item.as<capnp::Data>());
    }
  }
}

// --- reading ---

void Shape::decode(Bytes message, DynamicStruct::Builder into) const {
  auto found = kj::heapArray<kj::Vector<WireField>>(fields.size());
  WireReader reader(message);
  for (;;) {
    KJ_IF_MAYBE (next, reader.next()) {
      for (size_t i = 0; i < fields.size(); ++i) {
        if (!fields[i]->takes(*next)) continue;
        if (fields[i]->isText()) checkText(next->bytes);
        if (fields[i]->lastCounts()) found[i].clear();
        if (found[i].size() == kMostItems) {
          fail(ErrorKind::kInvalidArgument,
               kj::str("field ", next->number, " occurs more than ", kMostItems, " times"));
        }
        found[i].add(*next);
      }
    } else {
      break;
    }
  }
  for (size_t i = 0; i < fields.size(); ++i) fields[i]->decode(found[i], into);
}

bool Shape::Field::takes(const WireField& field) const {
  if (field.number != number) return false;
  if (missing != nullptr) return true;
  if (path.size() == 0) return message != nullptr && field.type == WireType::kBytes;
  if (transform != nullptr) return field.type == transform->type;
  auto type = wireTypeOf(itemType());
  return field.type == type || (isList() && field.type == WireType::kBytes);
}

void Shape::Field::decode(kj::ArrayPtr<const WireField> found, DynamicStruct::Builder into) const {
  KJ_IF_MAYBE (error, missing) {
    for (auto& field : found) {
      bool nothing = field.value == 0 || field.value == harmless;
      if (!nothing || field.bytes.size() > 0) fail(ErrorKind::kUnimplemented, *error);
    }
    return;
  }
  auto target = into;
  for (auto& step : path) {
    if (&step != &path.back()) target = target.get(step).as<DynamicStruct>();
  }
  if (isList()) return decodeList(found, target);
  KJ_IF_MAYBE (shape, message) {
    // A message that occurs twice is merged from both.
    kj::Vector<kj::byte> all;
    for (auto& part : found) {
      WireReader whole(part.bytes);
      while (found.size() > 1 && whole.next() != nullptr) {
      }
      all.addAll(part.bytes);
    }
    auto inner = path.size() == 0 ? target : target.get(path.back()).as<DynamicStruct>();
    shape->decode(all, inner);
    return;
  }
  KJ_IF_MAYBE (value, constant) {
    target.set(path.back(), numberOf(type(), uint64_t(*value)));
    return;
  }
  if (transform != nullptr) {
    if (found.size() > 0) transform->decode(found[0], path.back(), target);
  } else if (isNumber(type())) {
    target.set(path.back(), numberOf(type(), found.size() > 0 ? found[0].value : 0));
  } else if (found.size() > 0 && type().isText()) {
    kj::Maybe<kj::String> hold;
    target.set(path.back(), asText(found[0].bytes, hold));
  } else if (found.size() > 0) {
    target.set(path.back(), capnp::Data::Reader(found[0].bytes));
  }
}

void Shape::Field::decodeList(kj::ArrayPtr<const WireField> found,
                              DynamicStruct::Builder into) const {
  if (found.size() == 0) return;
  auto type = itemType();
  if (!isNumber(type)) {
    auto list = into.init(path.back(), found.size()).as<DynamicList>();
    for (size_t i = 0; i < found.size(); ++i) {
      kj::Maybe<kj::String> hold;
      KJ_IF_MAYBE (shape, message) {
        shape->decode(found[i].bytes, list[i].as<DynamicStruct>());
      } else if (type.isText()) {
        list.set(i, asText(found[i].bytes, hold));
      } else {
        list.set(i, capnp::Data::Reader(found[i].bytes));
      }
    }
    return;
  }
  kj::Vector<uint64_t> values;
  auto add = [&](uint64_t value) {
    if (values.size() == kMostItems) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("field ", number, " has more than ", kMostItems, " numbers"));
    }
    values.add(value);
  };
  for (auto& part : found) {
    if (part.type != WireType::kBytes) {
      add(part.value);
      continue;
    }
    PackedReader packed(part.bytes, wireTypeOf(type));
    for (;;) {
      KJ_IF_MAYBE (value, packed.next()) {
        add(*value);
      } else {
        break;
      }
    }
  }
  auto list = into.init(path.back(), values.size()).as<DynamicList>();
  for (size_t i = 0; i < values.size(); ++i) list.set(i, numberOf(type, values[i]));
}

}  // namespace talos::grpcapi
