#include "common/grpc-messages/struct-message.h"

#include "common/yaml/yaml.h"

namespace talos::grpcapi {
namespace {

using codec::YamlNode;

// Fields of google.protobuf.Value. Exactly one is written, even if it is zero.
enum ValueField : uint32_t {
  kNull = 1,
  kNumber = 2,
  kText = 3,
  kBool = 4,
  kStruct = 5,
  kList = 6,
};

void writeEntries(WireWriter& out, const YamlNode& mapping);

void writeScalar(WireWriter& out, const YamlNode& node) {
  kj::StringPtr text = node.text;
  if (!node.plain) return out.text(kText, text);
  switch (codec::scalarType(text)) {
    case codec::ScalarType::kNull:
      return out.varint(kNull, 0);
    case codec::ScalarType::kBool:
      return out.varint(kBool, codec::parseBool(text).orDefault(false));
    case codec::ScalarType::kInteger:
      KJ_IF_MAYBE (number, codec::parseInteger(text)) {
        auto value = double(number->magnitude);
        return out.fixed64(kNumber, bitsOf(number->negative ? -value : value));
      }
      return out.text(kText, text);
    case codec::ScalarType::kFloat:
      KJ_IF_MAYBE (number, text.tryParseAs<double>()) {
        return out.fixed64(kNumber, bitsOf(*number));
      }
      return out.text(kText, text);
    case codec::ScalarType::kText:
      return out.text(kText, text);
  }
}

void writeValue(WireWriter& out, const YamlNode& node) {
  WireWriter inside;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
    case YamlNode::Kind::kRaw:
      return out.varint(kNull, 0);
    case YamlNode::Kind::kScalar:
      return writeScalar(out, node);
    case YamlNode::Kind::kMapping:
      writeEntries(inside, node);
      return out.bytes(kStruct, inside.written());
    case YamlNode::Kind::kSequence:
      for (auto item : node.items) {
        WireWriter value;
        writeValue(value, *item);
        inside.bytes(1, value.written());
      }
      return out.bytes(kList, inside.written());
  }
}

void writeEntries(WireWriter& out, const YamlNode& mapping) {
  for (auto& entry : mapping.entries) {
    WireWriter pair, value;
    pair.text(1, entry.key);
    writeValue(value, *entry.value);
    pair.bytes(2, value.written());
    out.bytes(1, pair.written());
  }
}

}  // namespace

kj::Array<kj::byte> structMessage(kj::StringPtr yaml) {
  Problems problems;
  codec::YamlStream stream(yaml, "", problems);
  WireWriter out;
  auto documents = stream.documents();
  bool one = problems.size() == 0 && documents.size() == 1;
  if (one && documents[0]->kind == YamlNode::Kind::kMapping) writeEntries(out, *documents[0]);
  return out.finish();
}

}  // namespace talos::grpcapi
