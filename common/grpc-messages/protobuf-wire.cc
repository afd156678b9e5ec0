#include "common/grpc-messages/protobuf-wire.h"

#include <bit>

#include "common/base/error.h"

namespace talos::grpcapi {
namespace {

// libprotobuf's limit.
constexpr size_t kMostGroups = 100;
constexpr unsigned kBeginGroup = 3, kEndGroup = 4;
constexpr kj::byte kMore = 0x80;

[[noreturn]] void notMessage(kj::StringPtr what) {
  fail(ErrorKind::kInvalidArgument, kj::str("not a protobuf message: ", what));
}

uint64_t takeVarint(Bytes& rest, unsigned mostBytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < mostBytes; ++i) {
    if (i == rest.size()) notMessage("it ends inside a number");
    value |= uint64_t(rest[i] & ~kMore) << 7 * i;
    if ((rest[i] & kMore) == 0) {
      rest = rest.slice(i + 1, rest.size());
      return value;
    }
  }
  notMessage("a number has too many bytes");
}

uint64_t takeFixed(Bytes& rest, unsigned size) {
  if (rest.size() < size) notMessage("it ends inside a number");
  uint64_t value = 0;
  for (unsigned i = 0; i < size; ++i) value |= uint64_t(rest[i]) << 8 * i;
  rest = rest.slice(size, rest.size());
  return value;
}

Bytes takeBytes(Bytes& rest) {
  auto size = takeVarint(rest, 10);
  if (size > rest.size()) notMessage("it ends inside a field");
  auto bytes = rest.slice(0, size);
  rest = rest.slice(size, rest.size());
  return bytes;
}

// Returns the length of the valid sequence at the start; 0 if the start is not valid.
size_t sequenceLength(kj::ArrayPtr<const kj::byte> text) {
  auto c = text[0];
  if (c < 0x80) return 1;
  size_t length = c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  auto second = text[1];
  if (c == 0xe0 && second < 0xa0) return 0;   // longer than necessary
  if (c == 0xed && second >= 0xa0) return 0;  // half of a UTF-16 pair
  if (c == 0xf0 && second < 0x90) return 0;
  if (c == 0xf4 && second >= 0x90) return 0;  // beyond U+10FFFF
  return length;
}

}  // namespace

kj::Maybe<WireField> WireReader::next() {
  while (rest.size() > 0) {
    auto tag = static_cast<uint32_t>(takeVarint(rest, 5));
    WireField field{tag >> 3, WireType(tag & 7), 0, nullptr};
    if (field.number == 0) notMessage("a field has the number 0");
    switch (tag & 7) {
      case unsigned(WireType::kVarint):
        field.value = takeVarint(rest, 10);
        break;
      case unsigned(WireType::kFixed64):
        field.value = takeFixed(rest, 8);
        break;
      case unsigned(WireType::kFixed32):
        field.value = takeFixed(rest, 4);
        break;
      case unsigned(WireType::kBytes):
        field.bytes = takeBytes(rest);
        break;
      case kBeginGroup:
        if (groups.size() == kMostGroups) notMessage("groups are nested too deep");
        groups.add(field.number);
        continue;
      case kEndGroup:
        if (groups.size() == 0 || groups.back() != field.number) {
          notMessage("a group ends that has not begun");
        }
        groups.removeLast();
        continue;
      default:
        notMessage("a field has an unknown type");
    }
    if (groups.size() == 0) return field;
  }
  if (groups.size() > 0) notMessage("it ends inside a group");
  return nullptr;
}

kj::Maybe<uint64_t> PackedReader::next() {
  if (rest.size() == 0) return nullptr;
  switch (type) {
    case WireType::kFixed64:
      return takeFixed(rest, 8);
    case WireType::kFixed32:
      return takeFixed(rest, 4);
    default:
      return takeVarint(rest, 10);
  }
}

void WireWriter::check(size_t more) const {
  if (out.size() + more <= kMost) return;
  fail(ErrorKind::kResourceExhausted,
       kj::str("the answer of a node has more than ", kMost, " bytes as a message of gRPC"));
}

void WireWriter::bareVarint(uint64_t value) {
  check(10);
  for (; value >= kMore; value >>= 7) out.add(kj::byte(value) | kMore);
  out.add(kj::byte(value));
}

void WireWriter::bareFixed64(uint64_t bits) {
  check(8);
  for (unsigned i = 0; i < 8; ++i) out.add(kj::byte(bits >> 8 * i));
}

void WireWriter::tag(uint32_t number, WireType type) {
  bareVarint(uint64_t(number) << 3 | unsigned(type));
}

void WireWriter::varint(uint32_t number, uint64_t value) {
  tag(number, WireType::kVarint);
  bareVarint(value);
}

void WireWriter::fixed64(uint32_t number, uint64_t bits) {
  tag(number, WireType::kFixed64);
  bareFixed64(bits);
}

void WireWriter::bytes(uint32_t number, Bytes value) {
  tag(number, WireType::kBytes);
  bareVarint(value.size());
  append(value);
}

void WireWriter::chars(uint32_t number, kj::ArrayPtr<const char> value) {
  if (isUtf8(value)) return bytes(number, value.asBytes());
  kj::Vector<kj::byte> mended(value.size() + 16);
  for (Bytes rest = value.asBytes(); rest.size() > 0;) {
    auto length = sequenceLength(rest);
    if (length == 0) {
      mended.addAll("\xef\xbf\xbd"_kj.asBytes());
    } else {
      mended.addAll(rest.slice(0, length));
    }
    rest = rest.slice(kj::max(length, size_t(1)), rest.size());
  }
  bytes(number, mended);
}

bool isUtf8(kj::ArrayPtr<const char> text) {
  for (Bytes rest = text.asBytes(); rest.size() > 0;) {
    auto length = sequenceLength(rest);
    if (length == 0) return false;
    rest = rest.slice(length, rest.size());
  }
  return true;
}

uint64_t bitsOf(double value) {
  return std::bit_cast<uint64_t>(value);
}

double doubleOf(uint64_t bits) {
  return std::bit_cast<double>(bits);
}

}  // namespace talos::grpcapi
