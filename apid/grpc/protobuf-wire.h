// The bytes of protobuf messages (proto3): fields of four wire types, read and written. Pure.
//
// Input is foreign: a reader never reads beyond the end, stores nothing, and skips groups, which
// are obsolete, without recursion.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::grpcapi {

using Bytes = kj::ArrayPtr<const kj::byte>;

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number;
  WireType type;
  uint64_t value;  // of a number, as it stands there
  Bytes bytes;     // of kBytes, inside the message
};

class WireReader {
 public:
  explicit WireReader(Bytes message) : rest(message) {}
  // None at the end. Throws InvalidArgument when the bytes are not a message.
  kj::Maybe<WireField> next();

 private:
  Bytes rest;
  kj::Vector<uint32_t> groups;  // that are open
};

// Numbers behind one another, as a packed field has them.
class PackedReader {
 public:
  PackedReader(Bytes values, WireType type) : rest(values), type(type) {}
  // InvalidArgument when they do not end with the bytes.
  kj::Maybe<uint64_t> next();

 private:
  Bytes rest;
  WireType type;
};

// Also writes zero and empty values: leaving out proto3's defaults is up to the caller. A message
// of more than kMost bytes is ResourceExhausted: what is written comes from other nodes, whose
// lists may be a thousand times as large as messages as they are on the wire.
class WireWriter {
 public:
  // Twice what older clients accept.
  static constexpr size_t kMost = 8u << 20;

  void varint(uint32_t number, uint64_t value);
  void fixed64(uint32_t number, uint64_t bits);
  void bytes(uint32_t number, Bytes value);
  // Bytes that are not UTF-8 become U+FFFD: a reader would refuse the whole message for them.
  void text(uint32_t number, kj::StringPtr value) { chars(number, value.asArray()); }
  void chars(uint32_t number, kj::ArrayPtr<const char> value);
  // Without a number: the contents of a packed field.
  void bareVarint(uint64_t value);
  void bareFixed64(uint64_t bits);
  // Fields that were written elsewhere.
  void append(Bytes fields) {
    check(fields.size());
    out.addAll(fields);
  }

  size_t size() const { return out.size(); }
  Bytes written() const { return out.asPtr(); }
  kj::Array<kj::byte> finish() { return out.releaseAsArray(); }

 private:
  kj::Vector<kj::byte> out;
  void tag(uint32_t number, WireType type);
  void check(size_t more) const;
};

bool isUtf8(kj::ArrayPtr<const char> text);

// Of int32, which is in ten bytes when it is negative.
inline uint64_t signExtended(int64_t value) {
  return static_cast<uint64_t>(value);
}
uint64_t bitsOf(double value);
double doubleOf(uint64_t bits);

}  // namespace talos::grpcapi
