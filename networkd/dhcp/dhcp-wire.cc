#include "networkd/dhcp/dhcp-wire.h"

#include <kj/debug.h>

#include <algorithm>

namespace talos::networkd::dhcp {
namespace {

constexpr size_t kMostAddresses = 16, kMostNames = 32, kLongestName = 253, kLongestLabel = 63;

bool plainLabel(Bytes label) {
  return label.size() > 0 && label.size() <= kLongestLabel &&
         std::all_of(label.begin(), label.end(), [](kj::byte c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_';
         });
}

bool plainName(kj::ArrayPtr<const char> name) {
  if (name.size() == 0 || name.size() > kLongestName) return false;
  size_t begin = 0;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && name[i] != '.') continue;
    if (!plainLabel(name.slice(begin, i).asBytes())) return false;
    begin = i + 1;
  }
  return true;
}

struct Name {
  kj::Maybe<kj::String> text;  // nullptr if the name has other characters
  size_t next;                 // start of the following name
};

// Returns nullptr if the field ends inside the name, or a pointer is invalid.
kj::Maybe<Name> nameAt(Bytes field, size_t start, bool compressed) {
  kj::Vector<char> text;
  kj::Maybe<size_t> next;
  bool plain = true;
  size_t at = start, lowest = start;
  for (;;) {
    if (at >= field.size()) return nullptr;
    unsigned size = field[at];
    if (size >= 0xc0) {
      if (!compressed || at + 1 >= field.size()) return nullptr;
      size_t target = (size & 0x3f) << 8 | field[at + 1];
      if (next == nullptr) next = at + 2;
      if (target >= lowest) return nullptr;  // Each jump goes before all bytes read so far.
      at = lowest = target;
      continue;
    }
    if (size > kLongestLabel) return nullptr;
    if (size == 0) break;
    if (at + 1 + size > field.size()) return nullptr;
    auto label = field.slice(at + 1, at + 1 + size);
    plain = plain && plainLabel(label) && text.size() + 1 + size <= kLongestName;
    if (plain) {
      if (text.size() > 0) text.add('.');
      text.addAll(label.asChars());
    }
    at += 1 + size;
  }
  Name name{nullptr, next.orDefault(at + 1)};
  if (plain && text.size() > 0) name.text = kj::heapString(text.begin(), text.size());
  return kj::mv(name);
}

}  // namespace

Bytes Reader::take(size_t size) {
  if (failed || size > rest.size()) {
    failed = true;
    rest = nullptr;
    return nullptr;
  }
  auto result = rest.slice(0, size);
  rest = rest.slice(size, rest.size());
  return result;
}

uint64_t Reader::number(size_t size) {
  uint64_t value = 0;
  for (auto octet : take(size)) value = value << 8 | octet;
  return value;
}

Ip Reader::ip(int family) {
  return Ip::fromBytes(take(Ip::any(family).bits() / 8)).orDefault(Ip::any(family));
}

Writer& Writer::number(uint64_t value, size_t size) {
  for (size_t i = size; i-- > 0;) content.add(static_cast<kj::byte>(value >> (8 * i)));
  return *this;
}

Writer& Writer::bytes(Bytes bytes) {
  content.addAll(bytes);
  return *this;
}

Writer& Writer::zeros(size_t count) {
  for (size_t i = 0; i < count; ++i) content.add(0);
  return *this;
}

kj::Array<kj::byte> copyOf(Bytes bytes) {
  return kj::heapArray(bytes);
}

kj::Vector<Ip> addressesIn(Bytes field, int family) {
  kj::Vector<Ip> result;
  size_t size = Ip::any(family).bits() / 8;
  if (field.size() % size != 0) return result;
  Reader in(field);
  while (in.left() > 0 && result.size() < kMostAddresses) result.add(in.ip(family));
  return result;
}

kj::Vector<Ip> serversIn(Bytes field, int family) {
  kj::Vector<Ip> servers;
  for (auto& ip : addressesIn(field, family)) {
    bool needsLink = family == AF_INET6 && ip.isLinkLocal();
    if (!ip.isAny() && !ip.isMulticast() && !needsLink) servers.add(ip);
  }
  return servers;
}

uint16_t internetChecksum(std::initializer_list<Bytes> parts) {
  uint64_t sum = 0;
  for (auto part : parts) {
    for (size_t i = 0; i < part.size(); i += 2) {
      sum += part[i] << 8 | (i + 1 < part.size() ? part[i + 1] : 0);
    }
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

kj::Maybe<kj::String> nameIn(Bytes text) {
  auto chars = text.asChars();
  while (chars.size() > 0 && chars.back() == 0) chars = chars.slice(0, chars.size() - 1);
  if (chars.size() > 0 && chars.back() == '.') chars = chars.slice(0, chars.size() - 1);
  if (!plainName(chars)) return nullptr;
  return kj::heapString(chars);
}

kj::Vector<kj::String> namesIn(Bytes field, bool compressed) {
  kj::Vector<kj::String> names;
  size_t at = 0;
  while (at < field.size() && names.size() < kMostNames) {
    KJ_IF_MAYBE (name, nameAt(field, at, compressed)) {
      at = name->next;
      KJ_IF_MAYBE (text, name->text) {
        if (std::find(names.begin(), names.end(), *text) == names.end()) names.add(kj::mv(*text));
      }
    } else {
      break;
    }
  }
  return names;
}

void writeName(Writer& out, kj::StringPtr name) {
  size_t begin = 0;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && name[i] != '.') continue;
    auto label = name.slice(begin).slice(0, i - begin);
    KJ_REQUIRE(label.size() > 0 && label.size() <= kLongestLabel, "not a domain name", name);
    out.u8(label.size()).bytes(label.asBytes());
    begin = i + 1;
  }
  out.u8(0);
}

}  // namespace talos::networkd::dhcp
