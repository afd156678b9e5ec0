// Messages of protobuf for tests: written by hand, and read without a shape.
#pragma once

#include <kj/function.h>

#include <map>
#include <string>
#include <vector>

#include "common/grpc-messages/protobuf-wire.h"

namespace talos::grpcapi::testing {

// The fields of a message by their numbers.
struct Message {
  std::map<uint32_t, std::vector<std::pair<uint64_t, std::string>>> fields;

  Message() = default;
  explicit Message(Bytes bytes) {
    WireReader reader(bytes);
    for (;;) {
      KJ_IF_MAYBE (field, reader.next()) {
        fields[field->number].push_back(
            {field->value, std::string(field->bytes.asChars().begin(), field->bytes.size())});
      } else {
        break;
      }
    }
  }
  explicit Message(const std::string& bytes)
      : Message(kj::arrayPtr(bytes.data(), bytes.size()).asBytes()) {}

  size_t count(uint32_t number) const {
    auto found = fields.find(number);
    return found == fields.end() ? 0 : found->second.size();
  }
  bool has(uint32_t number) const { return count(number) > 0; }
  std::string text(uint32_t number, size_t index = 0) const {
    return index < count(number) ? fields.at(number)[index].second : "";
  }
  uint64_t number(uint32_t number, size_t index = 0) const {
    return index < count(number) ? fields.at(number)[index].first : 0;
  }
  Message in(uint32_t number, size_t index = 0) const { return Message(text(number, index)); }
};

// Builds a message, field by field.
inline kj::Array<kj::byte> request(kj::Function<void(WireWriter&)> fill) {
  WireWriter out;
  fill(out);
  return out.finish();
}

}  // namespace talos::grpcapi::testing
