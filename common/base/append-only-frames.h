// Frames: the format of a file to which pieces of a record are only ever appended.
//
//   bytes  content
//   4      "TBR1"
//   4      size of the payload, little-endian
//   4      CRC-32 of the size and the payload
//   8      position: how much of its source there is up to the end of this piece
//   …      the piece
//
// A power cut leaves at most the last frame half-written: reading stops at the first frame that is
// not whole, and all frames before it are as they were written. The file is foreign (an attacker
// may have written the disk): the reader accepts any bytes.
#pragma once

#include <kj/array.h>
#include <kj/function.h>

namespace talos {

constexpr size_t kFrameHead = 20;
constexpr size_t kMostPiece = 32u << 10;

struct Piece {
  uint64_t position;
  kj::ArrayPtr<const char> bytes;
};

kj::Array<kj::byte> frameOf(uint64_t position, kj::ArrayPtr<const char> piece);

// Calls `each` for every whole frame in turn; returns the bytes of these frames.
size_t readFrames(kj::ArrayPtr<const kj::byte> file, kj::FunctionParam<void(Piece)> each);

}  // namespace talos
