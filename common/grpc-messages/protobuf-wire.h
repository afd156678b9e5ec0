// The bytes of protobuf messages (proto3): fields of four wire types, read and written. Pure.
//
// Input is not trusted: a reader never reads beyond the end, stores nothing, and skips groups,
// which are obsolete, without recursion.
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
  uint64_t value;  // numbers: the encoded value
  Bytes bytes;     // kBytes: points into the message
};

class WireReader {
 public:
  explicit WireReader(Bytes message) : rest(message) {}
  // Returns nullptr at the end. Throws InvalidArgument if the bytes are not a message.
  kj::Maybe<WireField> next();

 private:
  Bytes rest;
  kj::Vector<uint32_t> groups;  // open groups
};

// A sequence of numbers, as in a packed field.
class PackedReader {
 public:
  PackedReader(Bytes values, WireType type) : rest(values), type(type) {}
  // Returns nullptr at the end; throws InvalidArgument if the bytes end inside a number.
  kj::Maybe<uint64_t> next();

 private:
  Bytes rest;
  WireType type;
};

// Also writes zero and empty values: the caller leaves out proto3's defaults. A message of more
// than kMost bytes is ResourceExhausted: its content comes from other nodes, whose lists may become
// a thousand times larger as messages than on the wire.
class WireWriter {
 public:
  // Twice the limit of older clients.
  static constexpr size_t kMost = 8u << 20;

  void varint(uint32_t number, uint64_t value);
  void fixed64(uint32_t number, uint64_t bits);
  void bytes(uint32_t number, Bytes value);
  // Replaces bytes that are not UTF-8 by U+FFFD: a reader would refuse the whole message for them.
  void text(uint32_t number, kj::StringPtr value) { chars(number, value.asArray()); }
  void chars(uint32_t number, kj::ArrayPtr<const char> value);
  // Writes a number without a field number: for the contents of a packed field.
  void bareVarint(uint64_t value);
  void bareFixed64(uint64_t bits);
  // Appends encoded fields.
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

// Extends an int32, which takes ten bytes if it is negative.
inline uint64_t signExtended(int64_t value) {
  return static_cast<uint64_t>(value);
}
uint64_t bitsOf(double value);
double doubleOf(uint64_t bits);

}  // namespace talos::grpcapi
