#include "tests/disks/volatile-disk.h"

#include <kj/debug.h>
#include <string.h>

#include <random>

namespace talos::disk {
namespace {

constexpr size_t kChunk = 256 << 10;
constexpr size_t kOverhead = 128;  // of remembering anything at all

bool isZero(kj::ArrayPtr<const kj::byte> bytes) {
  return bytes.size() == 0 ||
         (bytes[0] == 0 && memcmp(bytes.begin(), bytes.begin() + 1, bytes.size() - 1) == 0);
}

}  // namespace

kj::Array<uint64_t> drawFates(kj::ArrayPtr<const uint64_t> lengths, uint64_t seed) {
  std::mt19937_64 chance(seed);  // its numbers are part of the C++ standard
  auto fates = kj::heapArray<uint64_t>(lengths.size());
  // The number of eight writes that reach the medium on average: nearly all, nearly none, or
  // between.
  auto odds = 1 + chance() % 7;
  kj::Vector<size_t> kept;
  for (auto i : kj::indices(lengths)) {
    bool reaches = chance() % 8 < odds;
    fates[i] = reaches ? lengths[i] : 0;
    if (reaches) kept.add(i);
  }
  if (kept.size() == 0 || chance() % 2 == 0) return fates;
  auto& torn = fates[kept[chance() % kept.size()]];
  auto sectors = torn / kSector;
  if (sectors > 1) torn = (1 + chance() % (sectors - 1)) * kSector;
  return fates;
}

void VolatileDisk::write(uint64_t offset, kj::ArrayPtr<const kj::byte> bytes, bool durable) {
  remember(offset, bytes.size(), bytes.size(), durable);
  medium.write(offset, bytes);
}

void VolatileDisk::zero(uint64_t offset, uint64_t length, bool durable) {
  remember(offset, length, 0, durable);
  medium.zero(offset, length);
}

void VolatileDisk::flush() {
  done.clear();
  remembered = 0;
}

kj::Array<uint64_t> VolatileDisk::unflushed() const {
  kj::Vector<uint64_t> lengths;
  for (auto& it : done) {
    if (!it.durable) lengths.add(it.length);
  }
  return lengths.releaseAsArray();
}

void VolatileDisk::cut(Fates fates) {
  kj::Vector<uint64_t> reach(done.size());
  auto fate = fates.begin();
  for (auto& it : done) {
    KJ_REQUIRE(it.durable || fate != fates.end());
    reach.add(it.durable ? it.length : kj::min(*fate++, it.length));
  }
  KJ_REQUIRE(fate == fates.end());
  auto after = kj::heapArray<Content>(done.size());
  for (auto i = done.size(); i-- > 0;) {
    auto& it = done[i];
    // No newer write remains on this range, so its content is that of this write.
    after[i] = KJ_ASSERT_NONNULL(contentOf(it.offset, reach[i], SIZE_MAX));
    restore(it.offset, it.length, it.before);
  }
  for (auto i : kj::indices(after)) restore(done[i].offset, reach[i], after[i]);
  flush();
}

kj::Maybe<VolatileDisk::Content> VolatileDisk::contentOf(uint64_t offset, uint64_t length,
                                                         size_t most) {
  Content result;
  size_t size = 0;
  for (uint64_t at = offset, end = offset + length; at < end;) {
    KJ_IF_MAYBE (range, medium.content({at, end})) {
      auto bytes = kj::heapArray<kj::byte>(kj::min(range->end - range->begin, kChunk));
      medium.read(range->begin, bytes);
      at = range->begin + bytes.size();
      if (isZero(bytes)) continue;
      size += bytes.size();
      if (size > most) return nullptr;
      result.add(Piece{range->begin, kj::mv(bytes)});
    } else {
      break;
    }
  }
  return result;
}

void VolatileDisk::restore(uint64_t offset, uint64_t length, const Content& content) {
  bool whole = content.size() == 1 && content[0].bytes.size() == length;
  if (!whole && length > 0) medium.zero(offset, length);
  for (auto& piece : content) medium.write(piece.offset, piece.bytes);
}

// Must be called before the write, with the number of its new bytes.
void VolatileDisk::remember(uint64_t offset, uint64_t length, size_t news, bool durable) {
  KJ_REQUIRE(offset <= medium.size() && length <= medium.size() - offset);
  if (durable && done.empty()) return;
  KJ_IF_MAYBE (before, contentOf(offset, length, mostRemembered)) {
    size_t cost = kOverhead + news;
    for (auto& piece : *before) cost += piece.bytes.size();
    if (cost <= mostRemembered) {
      for (; remembered + cost > mostRemembered; done.pop_front()) remembered -= done.front().cost;
      remembered += cost;
      done.push_back({.offset = offset,
                      .length = length,
                      .before = kj::mv(*before),
                      .cost = cost,
                      .durable = durable});
      return;
    }
  }
  flush();
}

}  // namespace talos::disk
