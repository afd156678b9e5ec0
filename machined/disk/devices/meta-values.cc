#include "machined/disk/devices/meta-values.h"

#include <kj/debug.h>
#include <openssl/evp.h>
#include <string.h>

#include "common/base/error.h"
#include "common/memory/secret-array.h"

namespace talos::machined {
namespace {

using Bytes = MetaValues::Bytes;

// The large vector: big-endian.
constexpr size_t kLargeBegin = 4, kDigest = 32,
                 kLargeTail = kDigest + 4;  // the digest, a magic number
constexpr uint32_t kLargeMagic = 0x5a4b3c2d, kLargeMagicAtEnd = 0xa5b4c3d2;
constexpr size_t kLargeHead = 8;  // of a value: tag, length
// The small vector, of syslinux: little-endian.
constexpr size_t kSmall = 512, kSmallBegin = 8, kSmallEnd = kSmall - 4;
constexpr uint32_t kSmallMagic = 0x5a2d2fa5, kSmallMagicAtEnd = 0xdd28bf64, kSmallSum = 0xa3041767;
constexpr size_t kSmallHead = 2, kSmallLongest = 255;

size_t endOf(bool small, size_t copy) {
  return small ? kSmallEnd : copy - kLargeTail;
}

uint32_t big(Bytes bytes, size_t at) {
  return uint32_t(bytes[at]) << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
}
void putBig(kj::ArrayPtr<kj::byte> bytes, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<kj::byte>(value >> (24 - 8 * i));
}
uint32_t little(Bytes bytes, size_t at) {
  return bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | uint32_t(bytes[at + 3]) << 24;
}
void putLittle(kj::ArrayPtr<kj::byte> bytes, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<kj::byte>(value >> (8 * i));
}

// The digest covers the copy, with zeros in place of the digest.
void digest(Bytes copy, kj::byte (&out)[kDigest]) {
  auto text = secretArray(copy);
  memset(text.end() - kLargeTail, 0, kDigest);
  KJ_REQUIRE(EVP_Digest(text.begin(), text.size(), out, nullptr, EVP_sha256(), nullptr) == 1);
}

uint32_t sumOf(Bytes copy) {
  uint32_t sum = kSmallSum;
  for (size_t at = kSmallBegin; at < kSmallEnd; at += 4) sum -= little(copy, at);
  return sum;
}

bool isIntact(bool small, Bytes copy) {
  if (small) {
    return little(copy, 0) == kSmallMagic && little(copy, kSmallEnd) == kSmallMagicAtEnd &&
           little(copy, 4) == sumOf(copy);
  }
  if (big(copy, 0) != kLargeMagic || big(copy, copy.size() - 4) != kLargeMagicAtEnd) return false;
  kj::byte sum[kDigest];
  digest(copy, sum);
  return memcmp(sum, copy.end() - kLargeTail, kDigest) == 0;
}

size_t headOf(bool small) {
  return small ? kSmallHead : kLargeHead;
}

}  // namespace

bool MetaValues::isSmall(uint32_t tag) {
  return tag == 1 || tag == 2 || tag == static_cast<uint32_t>(MetaTag::kUpgrade);
}

MetaValues::MetaValues(Bytes partition, size_t largeBytes)
    : large{.small = false,
            .size = largeBytes,
            .first = 0,
            .second = largeBytes,
            .copies = {},
            .source = {},
            .values = {}},
      small{.small = true,
            .size = kSmall,
            .first = partition.size() - 2 * kSmall,
            .second = partition.size() - kSmall,
            .copies = {},
            .source = {},
            .values = {}} {
  KJ_REQUIRE(largeBytes > kLargeBegin + kLargeTail &&
             partition.size() >= 2 * (largeBytes + kSmall));
  read(large, partition);
  read(small, partition);
}

void MetaValues::read(Vector& vector, Bytes partition) {
  size_t size = vector.size;
  vector.copies[0] = secretArray(partition.slice(vector.first, vector.first + size));
  vector.copies[1] = secretArray(partition.slice(vector.second, vector.second + size));
  for (auto& copy : vector.copies) {
    KJ_IF_MAYBE (values, parse(vector.small, copy)) {
      vector.values = kj::mv(*values);
      vector.source = copy;
      return;
    }
  }
}

// The last of several values of a tag counts.
kj::Maybe<MetaValues::Values> MetaValues::parse(bool small, Bytes copy) {
  if (!isIntact(small, copy)) return nullptr;
  Values values;
  size_t end = endOf(small, copy.size()), head = headOf(small);
  for (size_t at = small ? kSmallBegin : kLargeBegin; end - at >= head;) {
    uint32_t tag = small ? copy[at] : big(copy, at);
    size_t length = small ? copy[at + 1] : big(copy, at + 4);
    if (tag == 0) break;
    at += head;
    if (length > end - at) return nullptr;
    values.upsert(tag, secretArray(copy.slice(at, at + length)));
    at += length;
  }
  return kj::mv(values);
}

kj::Array<kj::byte> MetaValues::encode(bool small, size_t size, const Values& values) {
  auto copy = secretArray(size);
  memset(copy.begin(), 0, copy.size());
  size_t at = small ? kSmallBegin : kLargeBegin;
  for (auto& it : values) {
    if (small) {
      copy[at] = static_cast<kj::byte>(it.key);
      copy[at + 1] = static_cast<kj::byte>(it.value.size());
    } else {
      putBig(copy, at, it.key);
      putBig(copy, at + 4, static_cast<uint32_t>(it.value.size()));
    }
    at += headOf(small);
    memcpy(copy.begin() + at, it.value.begin(), it.value.size());
    at += it.value.size();
  }
  if (small) {
    putLittle(copy, 0, kSmallMagic);
    putLittle(copy, 4, sumOf(copy));
    putLittle(copy, kSmallEnd, kSmallMagicAtEnd);
    return copy;
  }
  putBig(copy, 0, kLargeMagic);
  putBig(copy, size - 4, kLargeMagicAtEnd);
  kj::byte sum[kDigest];
  digest(copy, sum);
  memcpy(copy.end() - kLargeTail, sum, kDigest);
  return copy;
}

kj::Maybe<Bytes> MetaValues::get(uint32_t tag) const {
  return vectorOf(tag).values.find(tag).map([](auto& value) -> Bytes { return value; });
}

kj::Vector<uint32_t> MetaValues::tags() const {
  kj::Vector<uint32_t> result;
  auto add = [&](uint32_t tag) {
    if (!isSmall(tag)) result.add(tag);
  };
  auto boot = small.values.begin(), end = small.values.end();
  auto addUntil = [&](uint32_t tag) {
    for (; boot != end && boot->key < tag; ++boot) {
      if (isSmall(boot->key)) result.add(boot->key);
    }
  };
  for (auto& it : large.values) {
    addUntil(it.key);
    add(it.key);
  }
  addUntil(UINT32_MAX);
  return result;
}

void MetaValues::set(uint32_t tag, Bytes value) {
  if (tag == 0) fail(ErrorKind::kInvalidArgument, "META: 0 is not a valid tag");
  auto& vector = vectorOf(tag);
  size_t head = headOf(vector.small);
  size_t room = endOf(vector.small, vector.size) - (vector.small ? kSmallBegin : kLargeBegin);
  for (auto& it : vector.values) {
    if (it.key != tag) room -= head + it.value.size();
  }
  bool hasHead = room >= head;
  if (hasHead) room -= head;
  if (vector.small) room = kj::min(room, kSmallLongest);
  if (!hasHead || value.size() > room) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("META: a value of ", value.size(), " bytes for the tag ", tag, " does not fit; ",
                 hasHead ? kj::str("it must be at most ", room) : kj::str("META is full")));
  }
  vector.values.upsert(tag, secretArray(value));
}

bool MetaValues::remove(uint32_t tag) {
  return vectorOf(tag).values.erase(tag);
}

void MetaValues::addWrites(const Vector& vector, kj::Vector<MetaWrite>& out) {
  auto news = encode(vector.small, vector.size, vector.values);
  auto add = [&](uint64_t offset, Bytes bytes) { out.add(MetaWrite{offset, secretArray(bytes)}); };
  bool first = vector.copies[0] == news, second = vector.copies[1] == news;
  if (first && second) return;
  // Before the first copy is overwritten, the second one must hold the values in force.
  bool inForce = vector.source.begin() == vector.copies[0].begin();
  if (!first && inForce && vector.copies[1] != vector.copies[0])
    add(vector.second, vector.copies[0]);
  if (!first) add(vector.first, news);
  add(vector.second, news);
}

kj::Vector<MetaWrite> MetaValues::writes() const {
  kj::Vector<MetaWrite> result;
  addWrites(large, result);
  addWrites(small, result);
  return result;
}

}  // namespace talos::machined
