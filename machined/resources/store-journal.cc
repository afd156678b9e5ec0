#include "machined/resources/store-journal.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <string.h>
#include <zlib.h>

#include "common/memory/zeroize.h"

namespace talos::machined::journal {
namespace {

constexpr kj::byte kHeading[] = {'t', 'a', 'l', 'o', 's', 'j', 'n', '1'};
constexpr size_t kPrefix = 8;  // length and checksum
static_assert(sizeof(kHeading) % sizeof(capnp::word) == 0 && kPrefix % sizeof(capnp::word) == 0);

uint32_t checksum(uint32_t length, kj::ArrayPtr<const kj::byte> message) {
  kj::byte le[4];
  for (int i = 0; i < 4; ++i) le[i] = length >> (8 * i);
  return crc32(crc32(0, le, 4), message.begin(), message.size());
}

void put32(kj::byte* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = value >> (8 * i);
}
uint32_t get32(const kj::byte* from) {
  return from[0] | from[1] << 8 | from[2] << 16 | static_cast<uint32_t>(from[3]) << 24;
}

// Applies one record. A record with a valid checksum may still be wrong (another version's bug):
// such a record ends the journal like a torn one.
bool applyOne(kj::ArrayPtr<const capnp::word> words,
              kj::FunctionParam<void(rpc::Change::Reader)>& apply) {
  auto e = kj::runCatchingExceptions([&] {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 4 * words.size() + 1024;
    capnp::FlatArrayMessageReader reader(words, options);
    apply(reader.getRoot<rpc::Change>());
  });
  return e == nullptr;
}

}  // namespace

kj::ArrayPtr<const kj::byte> heading() {
  return kHeading;
}

kj::Array<kj::byte> frame(kj::ArrayPtr<const kj::byte> message) {
  auto record = kj::heapArray<kj::byte>(kPrefix + message.size());
  put32(record.begin(), message.size());
  put32(record.begin() + 4, checksum(message.size(), message));
  memcpy(record.begin() + kPrefix, message.begin(), message.size());
  return record;
}

kj::Array<kj::byte> encode(rpc::Change::Reader change) {
  capnp::MallocMessageBuilder message(change.totalSize().wordCount + 8);
  KJ_DEFER(zeroize(message));
  message.setRoot(change);
  auto words = capnp::messageToFlatArray(message);
  auto bytes = words.asBytes();
  KJ_DEFER(zeroize(bytes));
  return frame(bytes);
}

size_t recover(kj::ArrayPtr<const capnp::word> words,
               kj::FunctionParam<void(rpc::Change::Reader)> apply) {
  auto bytes = words.asBytes();
  if (bytes.size() < sizeof(kHeading) || memcmp(bytes.begin(), kHeading, sizeof(kHeading)) != 0)
    return 0;
  size_t valid = sizeof(kHeading);
  while (bytes.size() - valid >= kPrefix) {
    auto record = bytes.begin() + valid;
    auto length = get32(record);
    if (length == 0 || length % sizeof(capnp::word) != 0 || length > bytes.size() - valid - kPrefix)
      break;
    auto message = bytes.slice(valid + kPrefix, valid + kPrefix + length);
    if (get32(record + 4) != checksum(length, message)) break;
    auto first = (valid + kPrefix) / sizeof(capnp::word);
    if (!applyOne(words.slice(first, first + length / sizeof(capnp::word)), apply)) break;
    valid += kPrefix + length;
  }
  return valid;
}

bool isTornAfter(kj::ArrayPtr<const capnp::word> words, size_t valid) {
  if (valid == 0) return false;  // the heading is written before process 1 has the file
  auto rest = words.asBytes().slice(valid, words.asBytes().size());
  if (rest.size() < kPrefix) return true;
  auto length = get32(rest.begin());
  return length > 0 && length % sizeof(capnp::word) == 0 && length > rest.size() - kPrefix;
}

}  // namespace talos::machined::journal
