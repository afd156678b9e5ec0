#include "common/base/append-only-frames.h"

#include <kj/debug.h>
#include <string.h>
#include <zlib.h>

namespace talos {
namespace {

constexpr char kMagic[4] = {'T', 'B', 'R', '1'};
constexpr size_t kSizeAt = 4, kSumAt = 8, kPositionAt = 12;

void put(kj::ArrayPtr<kj::byte> out, size_t at, uint64_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i) out[at + i] = static_cast<kj::byte>(value >> (8 * i));
}

uint64_t little(kj::ArrayPtr<const kj::byte> in, size_t at, unsigned size) {
  uint64_t value = 0;
  for (unsigned i = size; i > 0; --i) value = value << 8 | in[at + i - 1];
  return value;
}

// Returns the sum of everything but the magic and the sum itself.
uint32_t sumOf(kj::ArrayPtr<const kj::byte> frame) {
  auto sum = crc32(0, frame.begin() + kSizeAt, 4);
  return static_cast<uint32_t>(
      crc32(sum, frame.begin() + kPositionAt, static_cast<uInt>(frame.size() - kPositionAt)));
}

}  // namespace

kj::Array<kj::byte> frameOf(uint64_t position, kj::ArrayPtr<const char> piece) {
  KJ_REQUIRE(piece.size() <= kMostPiece);
  auto frame = kj::heapArray<kj::byte>(kFrameHead + piece.size());
  memcpy(frame.begin(), kMagic, sizeof kMagic);
  put(frame, kSizeAt, piece.size(), 4);
  put(frame, kPositionAt, position, 8);
  if (piece.size() > 0) memcpy(frame.begin() + kFrameHead, piece.begin(), piece.size());
  put(frame, kSumAt, sumOf(frame), 4);
  return frame;
}

size_t readFrames(kj::ArrayPtr<const kj::byte> file, kj::FunctionParam<void(Piece)> each) {
  size_t at = 0;
  while (file.size() - at >= kFrameHead) {
    auto rest = file.slice(at, file.size());
    auto size = little(rest, kSizeAt, 4);
    if (memcmp(rest.begin(), kMagic, sizeof kMagic) != 0 || size > kMostPiece ||
        size > rest.size() - kFrameHead) {
      break;
    }
    auto frame = rest.slice(0, kFrameHead + size);
    if (sumOf(frame) != little(frame, kSumAt, 4)) break;
    each(Piece{little(frame, kPositionAt, 8), frame.slice(kFrameHead, frame.size()).asChars()});
    at += frame.size();
  }
  return at;
}

}  // namespace talos
